"""What runs beside the engine and the proxy on every node that serves: canary, memory guard, what follows the office's
addresses, and on a cluster's what has one of them serve alone.
"""

from __future__ import annotations

from collections.abc import Iterator

from pyinfra import host
from pyinfra.api.command import PyinfraCommand, StringCommand

from operations.paths import TUNING
from operations.runner import units
from operations.runner.run import Run, step

#: Waits until it is done, and says in its own words why it can't be.
_TUNE = (
    f"systemctl enable --quiet {TUNING}.service && systemctl restart {TUNING}.service"
    " || { echo 'gpu_clock_mhz, swap or min_free_kbytes can not be set here:' >&2;"
    f" journalctl --unit {TUNING} --lines 5 --output cat >&2; false; }}"
)


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
def tune(run: Run) -> Iterator[PyinfraCommand]:
    """The GPU's clock, swap, and what the kernel keeps free, as the owner wants them; taken back where he does not."""
    wanted, found = run.plan.of(host.name).tuning, run.look(host)
    if wanted is None:
        if units.exists(found, TUNING):
            yield from units.remove(TUNING)
        else:
            host.noop("nothing is to be set")
        return
    changes = list(units.place_service(wanted, found["files"]))
    if not changes and units.is_up(found, TUNING):
        host.noop("as planned")
        return
    if changes and units.is_running(found, TUNING):
        # With the script that has set it. Who is broken off behind this finds it down, and goes on.
        yield units.stop(TUNING)
    yield from changes
    yield StringCommand(_TUNE)


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
