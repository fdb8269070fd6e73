"""Models on demand: what lies on each node that has one, to load it when a client asks, and to unload it when idle."""

from __future__ import annotations

import math
from collections.abc import Sequence

from operations.paths import ONDEMAND, PROXY_KEY, folder_of
from operations.plan.cluster.nodes import Node
from operations.plan.cluster.served_model import ServedModel
from operations.plan.config.files import File, as_is, node_program
from operations.plan.config.knobs import Knobs
from operations.plan.services import demand
from operations.plan.services.canary import START_PATIENCE
from operations.plan.services.contract import Contract, Start
from operations.plan.services.engine_service import loaded_at
from operations.plan.services.service import Program, Service, python_program
from operations.wire.specs import OnDemandModel, OnDemandSpec


def on_demand(knobs: Knobs, node: Node, models: Sequence[tuple[ServedModel, Service]]) -> Program | None:
    """The program of a node that loads and unloads; None: all of its models stay loaded. `models`: those with a part on
    it, and that part.
    """
    stay = [each for each, _ in models if not each.is_on_demand]
    if len(stay) == len(models):
        return None
    # Those that load at a boot may hold the turn meanwhile (ready.sh).
    turn_s = sum(each.recipe.load_minutes for each in stay) * 60
    wanted: OnDemandSpec = {
        "address": node.fabric,
        "port": knobs.port("on_demand"),
        "key": PROXY_KEY,
        "floor_mib": round(knobs.memory_floor_gib * 1024),
        "stay_mib": sum(_need_mib(each, node) for each in stay),
        "stay": [each.recipe.served_name for each in stay],
        "models": {each.unit: _model(each, node, engine, turn_s) for each, engine in models if each.is_on_demand},
    }
    folder = folder_of(ONDEMAND)
    more = [
        File(f"{folder}/under_way.py", as_is("fallback/under_way.py")),
        File(f"{folder}/memory.py", as_is("engine/memory.py")),
        File(f"{folder}/phases.py", node_program("unit/phases.py")),
    ]
    return python_program(ONDEMAND, wanted, ("standing", "systemd", "tenants", "wishes"), more)


def _model(model: ServedModel, node: Node, engine: Service, turn_s: float) -> OnDemandModel:
    """`turn_s`: seconds for which its start may wait for its turn."""
    load_s = model.recipe.load_minutes * 60
    return {
        "model": model.recipe.served_name,
        "url": loaded_at(model, node),
        "address": node.fabric,
        "port": model.knobs.engine_port,
        "spec": engine.spec,
        "need_mib": _need_mib(model, node),
        "idle_s": model.idle_minutes * 60,
        "load_s": load_s,
        "most_s": (load_s + turn_s) * START_PATIENCE,
    }


def _need_mib(model: ServedModel, node: Node) -> int:
    # Rounded down: what the plan has found to fit has to fit there too.
    return math.floor(demand.taken_gib(model, node.memory_mib / 1024) * 1024)


SERVICE = Contract(
    (ONDEMAND,),
    lambda its: [on_demand(its.knobs, its.node, [(each, its.engine(each)) for each in its.here])],
    Start.AFTER_ENGINE,
)
