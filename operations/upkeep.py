"""What runs beside the engine and the proxy on every node that serves: canary, memory guard, what follows the office's
addresses, and on a cluster's what has one of them serve alone.
"""

from __future__ import annotations

from collections.abc import Iterator

from pyinfra import host
from pyinfra.api.command import PyinfraCommand

from operations import units
from operations.run import Run, step


@step
def files(run: Run) -> Iterator[PyinfraCommand]:
    """Their programs, settings and units."""
    mine = run.plan.of(host.name)
    for service in (mine.guard, mine.canary, mine.office, mine.fallback):
        if service:
            yield from units.place_service(service, run.look(host)["files"])
    if not mine.canary:
        host.noop("no engine belongs here")


@step
def watch(run: Run, *watchers: str, leaving: bool) -> Iterator[PyinfraCommand]:
    """These units run where the plan has them, from the files that are there, and nowhere else. `leaving`: where it has
    them no more they are left for now.
    """
    found, services = run.look(host), run.plan.of(host.name).services
    idle = True
    for unit in watchers:
        service = services[unit]
        if service:
            commands = units.renew(found, service)
        else:
            commands = units.remove(unit) if units.exists(found, unit) and not leaving else iter(())
        for command in commands:
            idle = False
            yield command
    if idle:
        host.noop("as planned")
