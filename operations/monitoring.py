"""What each node exports for Prometheus, and the page that shows it: started last, and nothing waits for them."""

from __future__ import annotations

from collections.abc import Iterator

from pyinfra import host
from pyinfra.api.command import PyinfraCommand

from operations import units
from operations.plan.places import EXPORTER, PAGE
from operations.run import Run, step


@step
def export(run: Run) -> Iterator[PyinfraCommand]:
    """The exporter of this node, as planned."""
    yield from _run(run, EXPORTER, "exports")


@step
def show(run: Run) -> Iterator[PyinfraCommand]:
    """The page of this node, as planned, with the owner's key as it is now."""
    yield from _run(run, PAGE, "is shown")


def _run(run: Run, unit: str, well: str) -> Iterator[PyinfraCommand]:
    program, found = run.plan.of(host.name).services[unit], run.look(host)
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
