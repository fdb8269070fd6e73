"""recipe x topology x nodes -> what each node shall have."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from operations.plan import proxy, upkeep
from operations.plan.address import address_service
from operations.plan.addresses import engine_url
from operations.plan.engine_service import engine_services
from operations.plan.fabric import fabric_files
from operations.plan.fallback import check_fallback, fallback, standby_urls
from operations.plan.files import File
from operations.plan.knobs import Knobs
from operations.plan.litellm_service import litellm_service
from operations.plan.monitoring import exporter
from operations.plan.nodes import Node
from operations.plan.page import page
from operations.plan.places import (
    ADDRESS,
    ALERTMANAGER,
    CANARY,
    ENGINE,
    EXPORTER,
    FALLBACK,
    GUARD,
    LITELLM,
    PAGE,
    PROMETHEUS,
    PROXY,
    WALLS,
)
from operations.plan.prometheus import alertmanager, prometheus
from operations.plan.proxy_service import proxy_service
from operations.plan.ranks import check_ranks
from operations.plan.recipe import Recipe
from operations.plan.refusal import Finding, Refusal
from operations.plan.service import Program, Service
from operations.plan.walls import walls


@dataclass(frozen=True)
class NodePlan:
    """What one node shall have; None is: must not be there."""

    node: Node
    fabric: tuple[File, ...]
    engine: Service | None
    proxy: Service | None = None
    litellm: tuple[Service, ...] = ()
    address: Service | None = None
    canary: Program | None = None
    guard: Program | None = None
    fallback: Program | None = None
    exporter: Program | None = None
    prometheus: Program | None = None
    alertmanager: Program | None = None
    page: Program | None = None
    walls: Program | None = None

    @property
    def services(self) -> dict[str, Program | None]:
        services: dict[str, Program | None] = {ENGINE: self.engine, PROXY: self.proxy, **dict.fromkeys(LITELLM)}
        services |= {service.unit: service for service in self.litellm}
        services[ADDRESS] = self.address
        services |= {CANARY: self.canary, GUARD: self.guard, FALLBACK: self.fallback, EXPORTER: self.exporter}
        services |= {PROMETHEUS: self.prometheus, ALERTMANAGER: self.alertmanager, PAGE: self.page}
        return {**services, WALLS: self.walls}


@dataclass(frozen=True)
class Plan:
    """The whole declared state."""

    knobs: Knobs
    recipe: Recipe
    nodes: tuple[NodePlan, ...]

    @property
    def head(self) -> NodePlan:
        return self.nodes[0]

    @property
    def serving(self) -> tuple[NodePlan, ...]:
        """Nodes that run a rank or an engine, the head first."""
        return tuple(each for each in self.nodes if each.engine)

    @property
    def endpoints(self) -> dict[str, str]:
        """Base URL of each engine, by the node that answers on it."""
        answering = self.serving if self.knobs.topology == "replicas" else (self.head,)
        return {each.node.name: engine_url(self.knobs, each.node) for each in answering}

    @property
    def urls(self) -> dict[str, str]:
        """Base URL of each proxy, by its node: all of them serve the same under the same keys."""
        return {each.node.name: proxy.client_url(self.knobs, each.node) for each in self.serving}

    def of(self, name: str) -> NodePlan:
        return next(each for each in self.nodes if each.node.name == name)


def check_topology(recipe: Recipe, knobs: Knobs, node_count: int) -> None:
    """Refuse what can't be, with the knob that would have to change."""
    if knobs.topology not in recipe.topologies:
        allowed = ", ".join(recipe.topologies)
        problem = f"topology={knobs.topology!r}: the recipe {recipe.name} runs in: {allowed}"
        raise Refusal(Finding("data", problem, f"set topology to one of: {allowed}, or choose another recipe"))
    check_fallback(recipe, knobs)
    check_ranks(recipe, knobs, node_count)
    if node_count + 11 > min(subnet.num_addresses for subnet in knobs.rail_subnets) - 2:
        problem = (
            f"fabric_subnets={knobs.fabric_subnets!r}: too small for {node_count} nodes, of which the head has .11"
        )
        raise Refusal(Finding("data", problem, "give each rail a wider subnet, a /24 for instance"))
    if knobs.topology == "cluster" and node_count < recipe.min_nodes:
        problem = f"the recipe {recipe.name} wants {recipe.min_nodes} nodes or more; the inventory has {node_count}"
        raise Refusal(Finding("data", problem, "add nodes to the inventory, or choose another recipe"))
    if knobs.topology != "solo" and node_count < 2:
        problem = f"topology={knobs.topology!r} needs two nodes or more; the inventory has {node_count}"
        raise Refusal(Finding("data", problem, "add a node to the inventory, or set topology to solo"))


def make_plan(recipe: Recipe, knobs: Knobs, nodes: Sequence[Node], away: Sequence[str] = ()) -> Plan:
    """The plan; raises Refusal when recipe, topology and nodes do not go together. `away`: addresses that nodes without
    an answer had in the plan of before.

    Solo has no fabric: its nodes have no rails, whatever they have cables in. So the head gets the same with the other
    node on, off, unplugged or not in the inventory, and its network is left as it is: what a cluster has written for
    its rails stays, and is found as planned when the cluster comes back.
    """
    check_topology(recipe, knobs, len(nodes))
    if knobs.topology == "solo":
        nodes = [replace(node, rails=(), rdma=(), subnets=()) for node in nodes]
    serving = nodes[:1] if knobs.topology == "solo" else nodes
    for node in serving:
        proxy.check_bind(knobs, node)
    engines = engine_services(recipe, knobs, serving)
    count = len(nodes)
    draft = Plan(knobs, recipe, tuple(_node_plan(recipe, knobs, node, serving, engines, count) for node in nodes))
    asked = [*draft.endpoints.values(), *standby_urls(knobs, serving)]
    others = [*(node.management for node in nodes), *away]
    return replace(draft, nodes=tuple(_with_proxy(each, recipe, knobs, asked, others) for each in draft.nodes))


def _with_proxy(
    mine: NodePlan, recipe: Recipe, knobs: Knobs, engines: Sequence[str], others: Sequence[str]
) -> NodePlan:
    """Every node that serves has one: each of them may die, and the others are still asked."""
    if mine.engine is None:
        return mine
    behind = tuple(litellm_service(recipe, knobs, engines, unit) for unit in LITELLM)
    address = address_service(recipe, knobs, mine.node, others)
    return replace(mine, proxy=proxy_service(recipe, knobs, mine.node), litellm=behind, address=address)


def _node_plan(
    recipe: Recipe, knobs: Knobs, node: Node, serving: Sequence[Node], engines: Mapping[str, Service], count: int
) -> NodePlan:
    fabric = fabric_files(knobs, node)
    if node.name not in engines:
        return NodePlan(node, fabric, None)
    ranks = serving if knobs.topology == "cluster" else [node]
    return NodePlan(
        node,
        fabric,
        engines[node.name],
        canary=upkeep.canary(recipe, knobs, node, ranks),
        guard=upkeep.guard(knobs),
        fallback=fallback(recipe, knobs, node, ranks, engines[node.name]),
        exporter=exporter(recipe, knobs, node, engines[node.name], ranks[0] is node),
        prometheus=prometheus(recipe, knobs, node, [each.name for each in serving]),
        alertmanager=alertmanager(knobs, node),
        page=page(recipe, knobs, node, serving, engines[node.name]),
        walls=walls(knobs, node, count),
    )
