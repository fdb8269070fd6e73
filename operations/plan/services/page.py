"""The page of a node: how all nodes are, on a socket behind the node's proxy at /tandem/."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from operations.paths import ADVICE, PAGE, PAGE_SOCKET, PROXY_KEY, PROXY_USER, folder_of
from operations.plan.cluster.nodes import Node
from operations.plan.cluster.served_model import ServedModel
from operations.plan.config.files import File, as_is
from operations.plan.config.knobs import Knobs
from operations.plan.services.contract import Context, Contract, Start
from operations.plan.services.monitoring import rests, targets
from operations.plan.services.panels import panels_of
from operations.plan.services.service import Program, python_program
from operations.wire.specs import PageSpec

#: Where clients find it, behind the proxy's URL.
ROOT = "/tandem"
_PARTS = (
    *("advice", "answers", "asking", "figures", "handed", "keyed", "last_hour", "node_events", "nodes"),
    *("reading", "series", "state", "words"),
)
#: What a browser gets.
STATIC = (
    *("index.html", "page.css", "page.js", "asked.js", "charts.js", "picture.js", "tell.js", "times.js", "advice.js"),
    *("icon.svg", "uplot.js", "uplot.css", "uplot.LICENSE"),
)


def page(
    knobs: Knobs, node: Node, serving: Sequence[Node], models: Sequence[tuple[ServedModel, str]]
) -> Program | None:
    """The page of a node that serves; None: nobody wants one. `models`: all of them, each with its spec."""
    if knobs.monitoring == "off":
        return None
    at = targets(knobs, {each.name: each.fabric for each in serving})
    wanted: PageSpec = {
        "socket": PAGE_SOCKET,
        "asked_by": [0, PROXY_USER],
        "name": node.name,
        "models": [
            {
                "topology": each.knobs.topology,
                "executor": _joined(each.knobs),
                "recipe": each.recipe.name,
                "model": each.recipe.served_name,
                "spec": spec,
                "load_minutes": each.recipe.load_minutes,
                "unit": each.unit,
                "nodes": [rank.name for rank in each.nodes],
                "answers": [rank.name for rank in each.answering],
                **rests(each),
            }
            for each, spec in models
        ],
        "nodes": [{"name": each.name, "url": f"http://{at[each.name]}", "rails": list(each.rails)} for each in serving],
        "prometheus": _prometheus(knobs, serving[0]),
        "advice": ADVICE,
        "panels": panels_of(dict.fromkeys(each.recipe.engine for each, _ in models)),
        "static": list(STATIC),
    }
    return python_program(
        PAGE,
        wanted,
        _PARTS,
        [File(f"{folder_of(PAGE)}/{name}", as_is(f"page/static/{name}")) for name in STATIC],
        key=PROXY_KEY,
        run=str(Path(PAGE_SOCKET).parent.relative_to("/run")),
        asks=[f"{each.fabric}/32" for each in serving],
    )


def _joined(knobs: Knobs) -> str:
    """The executor of a cluster's ranks and their stages, in words; empty: it is no cluster."""
    stages = f" in {knobs.stages} stages" if knobs.stages > 1 else ""
    return f"{knobs.executor}{stages}" if knobs.of_an_engine.topology == "cluster" else ""


def _prometheus(knobs: Knobs, head: Node) -> str:
    """Its URL; empty: the owner's own, if any, is not known here."""
    return f"http://{head.fabric}:{knobs.prometheus_port}" if knobs.runs_prometheus else ""


def _its_page(its: Context) -> list[Program | None]:
    specs = [(each, its.engines[each.unit][each.leader.name].spec) for each in its.models]
    return [page(its.knobs, its.node, its.serving, specs)]


#: Its own step tells it of benches; it is given the owner's key at its start.
SERVICE = Contract(
    (PAGE,),
    _its_page,
    Start.OWN_STEP,
    differs=lambda found: "another key" if found["proxy"].get("page_is_older") else "",
)
