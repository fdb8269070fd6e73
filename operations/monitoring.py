"""What each node exports for Prometheus: started last, and nothing waits for it."""

from __future__ import annotations

from collections.abc import Iterator

from pyinfra import host
from pyinfra.api.command import PyinfraCommand

from operations import looking, units
from operations.plan.places import EXPORTER
from operations.plan.plan import Plan


@looking.step
def export(plan: Plan) -> Iterator[PyinfraCommand]:
    """The exporter of this node, as planned."""
    exporter, found = plan.of(host.name).exporter, looking.at(host, plan)
    if exporter is None:
        if units.exists(found, EXPORTER):
            yield from units.remove(EXPORTER)
        else:
            host.noop("nothing is exported here")
        return
    yield from units.place_service(exporter, found["files"])
    if units.is_up(found, EXPORTER) and not units.is_stale(found, exporter):
        host.noop("exports")
        return
    yield units.stop(EXPORTER)
    yield from units.start(EXPORTER)
