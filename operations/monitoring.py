"""What each node exports for Prometheus, and the page that shows it: started last, and nothing waits for them."""

from __future__ import annotations

from collections.abc import Iterator

from pyinfra import host
from pyinfra.api.command import PyinfraCommand

from operations import looking, units
from operations.paths import EXPORTER, PAGE
from operations.plan.plan import Plan


@looking.step
def export(plan: Plan) -> Iterator[PyinfraCommand]:
    """The exporter of this node, as planned."""
    yield from _run(plan, EXPORTER, "exports")


@looking.step
def show(plan: Plan) -> Iterator[PyinfraCommand]:
    """The page of this node, as planned, with the owner's key as it is now."""
    yield from _run(plan, PAGE, "is shown")


def _run(plan: Plan, unit: str, well: str) -> Iterator[PyinfraCommand]:
    program, found = plan.of(host.name).services[unit], looking.at(host, plan)
    if program is None:
        if units.exists(found, unit):
            yield from units.remove(unit)
        else:
            host.noop(f"no {unit} is wanted here")
        return
    yield from units.place_service(program, found["files"])
    is_stale = units.is_stale(found, program) or (unit == PAGE and found["proxy"].get("page_is_older"))
    if units.is_up(found, unit) and not is_stale:
        host.noop(well)
        return
    yield units.stop(unit)
    yield from units.start(unit)
