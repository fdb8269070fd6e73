"""The canary and the memory guard on every node that serves, and on a cluster's what has one of them serve alone."""

from __future__ import annotations

from collections.abc import Iterator

from pyinfra import host
from pyinfra.api.command import PyinfraCommand

from operations import units
from operations.paths import CANARY, FALLBACK, GUARD
from operations.run import Run, step


@step
def files(run: Run) -> Iterator[PyinfraCommand]:
    """Their programs, settings and units."""
    mine = run.plan.of(host.name)
    for service in (mine.guard, mine.canary, mine.fallback):
        if service:
            yield from units.place_service(service, run.look(host)["files"])
    if not mine.canary:
        host.noop("no engine belongs here")


@step
def watch(run: Run) -> Iterator[PyinfraCommand]:
    """They run where the plan has them, from the files that are there, and nowhere else."""
    found, services = run.look(host), run.plan.of(host.name).services
    idle = True
    for unit in (GUARD, CANARY, FALLBACK):
        service = services[unit]
        if service is None and not units.exists(found, unit):
            continue
        if service and units.is_up(found, unit) and not units.is_stale(found, service):
            continue
        idle = False
        if service is None:
            yield from units.remove(unit)
        else:
            yield units.stop(unit)
            yield from units.start(unit)
    if idle:
        host.noop("as planned")
