"""What is deployed, as its nodes say it, in the words of a run."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from bench.records import Counters, NodeState, Setup
from bench.session import Node
from operations.plan.config.refusal import Finding, Refusal

ENGINE, PROXY = "tandem-engine", "tandem-proxy"


@dataclass(frozen=True)
class Deployed:
    """`engines`: the nodes that answer clients of an engine -> its base URL there, without /v1."""

    nodes: tuple[str, ...]
    engines: Mapping[str, str]
    proxy: str
    key: str = field(repr=False)
    model: str
    knobs: Mapping[str, Any]
    recipe: Mapping[str, Any]
    setup: Setup
    proxy_image: str


def deployed(nodes: Mapping[str, Node], head: str, deploy_s: float | None = None) -> Deployed:
    """Raises Refusal where nothing is deployed, or what runs is not the plan that served last."""
    if head not in nodes:
        raise Refusal(Finding(head, "the head does not answer", "`tandem status` says how it is"))
    first = nodes[head]
    engines = {
        name: node.units[ENGINE]["url"]
        for name, node in nodes.items()
        if node.units.get(ENGINE, {}).get("url") and node.units[ENGINE].get("ActiveState") == "active"
    }
    if not first.endpoint.get("url") or not engines:
        missing = "no engine runs" if first.endpoint.get("url") else "no proxy runs on the head"
        raise Refusal(
            Finding("deployment", f"{missing}: there is nothing to measure", "`tandem apply` deploys what is declared")
        )
    _is_whole(nodes, first.served)
    knobs, recipe = first.served["knobs"], first.served["recipe"]
    if knobs["topology"] == "replicas" and int(knobs.get("nodes_per_replica", 1)) > 1:
        problem = "each engine lies on several nodes (nodes_per_replica), and figures tell apart one node and all"
        raise Refusal(Finding("deployment", problem, '`--topologies "cluster replicas"` measures those'))
    # A plan of an older Tandem does not know of stages.
    stages = int(knobs.get("pipeline_parallel", 1))
    name = setup_name(knobs["topology"], knobs["executor"], stages)
    computing = [node for node, said in nodes.items() if said.units.get(ENGINE, {}).get("ActiveState") == "active"]
    return Deployed(
        nodes=tuple(nodes),
        engines=engines,
        proxy=first.endpoint["url"].removesuffix("/v1"),
        key=first.endpoint["key"],
        model=first.endpoint["model"],
        knobs=knobs,
        recipe=recipe,
        setup=Setup(
            name=name,
            topology=knobs["topology"],
            executor=knobs["executor"],
            routing=knobs["routing"],
            stages=stages,
            nodes=len(computing),
            plan=first.served["id"],
            deploy_s=None if deploy_s is None else round(deploy_s, 1),
            versions=_versions(nodes, recipe),
        ),
        proxy_image=first.units.get(PROXY, {}).get("image_name", ""),
    )


def setup_name(topology: str, executor: str, stages: int = 1) -> str:
    """A cluster is told with what joins its ranks, and with its pipeline's stages where there are several."""
    in_stages = f"/pp{stages}" if stages > 1 else ""
    return f"{topology}/{executor}{in_stages}" if topology == "cluster" else topology


def _is_whole(nodes: Mapping[str, Node], served: Mapping[str, Any]) -> None:
    """Whether the engines that run are those of the plan that served last, all of them."""
    remedy = "`tandem apply` makes it so, and says why where it can't"
    if not served:
        raise Refusal(Finding("deployment", "no plan has served yet", remedy))
    for name, services in served.get("services", {}).items():
        planned = services.get(ENGINE, {}).get("spec")
        if planned and name not in nodes:
            raise Refusal(
                Finding(name, "has an engine of the plan and does not answer", "`tandem status` says how it is")
            )
        if planned and nodes[name].units.get(ENGINE, {}).get("spec") != planned:
            raise Refusal(Finding(name, "its engine is not the one of the plan that served last", remedy))


def _versions(nodes: Mapping[str, Node], recipe: Mapping[str, Any]) -> dict[str, str]:
    """By name; where nodes differ, each with its own."""
    told: dict[str, str] = {}
    for name in dict.fromkeys(key for node in nodes.values() for key in node.versions):
        values = {node: said.versions[name] for node, said in nodes.items() if name in said.versions}
        if len(set(values.values())) == 1:
            told[name] = next(iter(values.values()))
        else:
            told |= {f"{name} of {node}": value for node, value in values.items()}
    model = recipe.get("model") or {}
    return {
        **told,
        "engine": f"{recipe.get('engine', '')} {recipe.get('engine_version') or ''}".strip(),
        "model": str(model.get("repo", "")),
        "model revision": str(model.get("revision") or ""),
    }


def state(node: Node) -> NodeState:
    """As a step keeps it."""
    return NodeState(**node.state)


def counted(before: Node, after: Node) -> Counters | None:
    """What an engine counted in between; None: it says nothing, or was started anew."""
    if before.counters is None or after.counters is None:
        return None
    change = {name: after.counters[name] - before.counters.get(name, 0) for name in after.counters}
    return Counters(**change) if min(change.values(), default=0) >= 0 else None
