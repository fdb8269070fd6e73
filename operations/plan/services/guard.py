"""The guard of the memory of a node that serves: it kills before the node freezes."""

from __future__ import annotations

from collections.abc import Sequence

from operations.paths import GUARD
from operations.plan.cluster.served_model import ServedModel
from operations.plan.config.knobs import Knobs
from operations.plan.services.contract import Contract, Removal, Start
from operations.plan.services.proxy_memory import BOUNDS, container_id
from operations.plan.services.service import Program, python_program
from operations.wire.specs import GuardBefore, GuardSpec


def guard(knobs: Knobs, models: Sequence[ServedModel]) -> Program:
    """Kills an engine before the node freezes: of several the owner's last one first, one on demand before those that
    stay loaded, and none for what the proxy has been sent.
    """
    last_first = [each for each in reversed(models) if each.is_on_demand]
    last_first += [each for each in reversed(models) if not each.is_on_demand]
    containers = {each.unit: each.container_id for each in last_first}
    before: dict[str, GuardBefore] = {
        unit: {"container": container_id(unit), "usual_mib": bound.usual_mib, "idle_mib": bound.idle_mib}
        for unit, bound in BOUNDS.items()
        if bound.usual_mib
    }
    wanted: GuardSpec = {"floor_mib": round(knobs.memory_floor_gib * 1024), "containers": containers, "before": before}
    return python_program(GUARD, wanted)


SERVICE = Contract(
    (GUARD,), lambda its: [guard(its.knobs, its.here)], Start.BEFORE_ENGINE, removal=Removal.AFTER_ENGINES
)
