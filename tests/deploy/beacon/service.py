"""What the beacon is: its unit, its files, and when it starts. Wanted where metrics are."""

from __future__ import annotations

from pathlib import Path

from operations.plan.config.files import SHIPPED
from operations.plan.config.knobs import Knobs
from operations.plan.services import registry
from operations.plan.services.contract import Contract, Start
from operations.plan.services.service import Program, python_program

BEACON = "tandem-beacon"
# This folder is its folder of files/.
SHIPPED.searchpath.append(str(Path(__file__).parents[1]))


def beacon(knobs: Knobs) -> Program | None:
    return None if knobs.monitoring == "off" else python_program(BEACON, {"says": "it runs"})


def with_beacon(start: str) -> tuple[Contract, ...]:
    """The list of services with its line in it."""
    line = Contract((BEACON,), lambda its: [beacon(its.knobs)], Start[start], failure="the beacon can't be lit")
    return (*(each for each in registry.SERVICES if BEACON not in each.units), line)
