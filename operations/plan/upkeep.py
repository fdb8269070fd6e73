"""What keeps an engine up on each node that serves: the canary, and the guard of its memory."""

from __future__ import annotations

import json
from collections.abc import Sequence

from operations.plan.addresses import engine_url
from operations.plan.files import File, as_is, render
from operations.plan.knobs import Knobs
from operations.plan.nodes import Node
from operations.plan.places import CANARY, ETC, GUARD, folder_of
from operations.plan.recipe import Recipe
from operations.plan.service import SPEC, Program, seal_program

#: Times the minutes that a load takes after which an engine that has never answered hangs.
START_PATIENCE = 2


def canary(recipe: Recipe, knobs: Knobs, node: Node, ranks: Sequence[Node]) -> Program:
    """Asks the engine of which `node` is one rank; rank 0 answers, only there the container is killed when it hangs."""
    answering = ranks[0]
    rails = {
        device: {"address": f"{address}/{subnet.prefixlen}", "mtu": knobs.fabric_mtu}
        for device, address, subnet in zip(node.rails, node.rail_addresses, node.subnets, strict=True)
    }
    wanted = {
        "url": engine_url(knobs, answering),
        "model": recipe.served_name,
        "acts": node.name == answering.name,
        "deadline_s": knobs.canary_deadline,
        "start_s": recipe.load_minutes * 60 * START_PATIENCE,
        "rails": rails,
        "peers": {rank.name: rank.fabric for rank in ranks if rank.name != node.name},
    }
    return _program(CANARY, "canary.json", wanted)


def guard(knobs: Knobs) -> Program:
    """Kills the engine before the node freezes."""
    return _program(GUARD, "guard.json", {"floor_mib": round(knobs.memory_floor_gib * 1024)})


def _program(unit: str, settings: str, wanted: dict[str, object]) -> Program:
    folder, name = folder_of(unit), unit.removeprefix("tandem-")
    files = [
        File(f"{folder}/{name}.py", as_is(f"{name}/{name}.py")),
        File(f"{folder}/{settings}", json.dumps(wanted, indent=1) + "\n"),
        File(f"/etc/systemd/system/{unit}.service", render(f"{name}/{unit}.service.j2", etc=ETC, spec=SPEC)),
    ]
    return seal_program(unit, files)
