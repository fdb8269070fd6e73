"""What the beacon is: its unit, its files, and when it starts. Wanted where metrics are."""

from __future__ import annotations

from pathlib import Path

from operations.paths import folder_of, unit_file
from operations.plan.config.files import File
from operations.plan.config.knobs import Knobs
from operations.plan.services import registry
from operations.plan.services.contract import Contract, Start
from operations.plan.services.service import Program, seal_program

BEACON = "tandem-beacon"
_FILES = Path(__file__).parent


def beacon(knobs: Knobs) -> Program | None:
    if knobs.monitoring == "off":
        return None
    program = File(f"{folder_of(BEACON)}/beacon.py", (_FILES / "beacon.py").read_text())
    return seal_program(BEACON, [program, File(unit_file(BEACON), (_FILES / f"{BEACON}.service").read_text())])


def with_beacon(start: str) -> tuple[Contract, ...]:
    """The list of services with its line in it."""
    line = Contract((BEACON,), lambda its: [beacon(its.knobs)], Start[start], failure="the beacon can't be lit")
    return (*(each for each in registry.SERVICES if BEACON not in each.units), line)
