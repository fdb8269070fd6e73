"""What runs beside engines and proxies on every node that serves, each by its place in the list of services."""

from __future__ import annotations

from collections.abc import Iterator

from pyinfra import host
from pyinfra.api.command import PyinfraCommand, QuoteString, StringCommand

from operations.plan.decide.unit_state import exists, is_leftover, is_running, is_up
from operations.plan.services import registry
from operations.plan.services.contract import Contract, Start
from operations.plan.services.service import Program
from operations.runner import units
from operations.runner.run import Run, step


@step
def files(run: Run) -> Iterator[PyinfraCommand]:
    """Their programs, settings and units."""
    mine = run.plan.of(host.name).services
    for service in registry.starting(Start.BEFORE_ENGINE, Start.BEFORE_PROXY, Start.AFTER_ENGINE):
        for unit in (unit for unit in service.units if unit in mine):
            yield from units.place_service(mine[unit], run.look(host)["files"])
    if not mine:
        host.noop("no engine belongs here")


@step
def tune(run: Run) -> Iterator[PyinfraCommand]:
    """What the machine is set to, as the owner wants it; taken back where he does not."""
    idle = True
    for service in registry.starting(Start.SETTING):
        for command in _set(run, service, service.units[0]):
            idle = False
            yield command
    if idle:
        host.noop("nothing is to be set, or it is")


def _set(run: Run, service: Contract, unit: str) -> Iterator[PyinfraCommand]:
    wanted, found = run.plan.of(host.name).services.get(unit), run.look(host)
    if wanted is None:
        if exists(found, unit):
            yield from units.remove(unit)
        return
    changes = list(units.place_service(wanted, found["files"]))
    if not changes and is_up(found, unit) and not service.differs(found):
        return
    if changes and is_running(found, unit):
        # With the script that has set it. Who is broken off behind this finds it down, and goes on.
        yield units.stop(unit)
    yield from changes
    yield _started(wanted, service.failure)


def _started(program: Program, failure: str) -> StringCommand:
    """Waits until it is done, and says in its own words why it can't be."""
    unit = program.unit
    return StringCommand(
        f"systemctl enable --quiet {unit}.service && systemctl restart {unit}.service || {{ echo",
        QuoteString(f"{failure}:"),
        f">&2; journalctl --unit {unit} --lines 5 --output cat >&2; false; }}",
    )


@step
def watch(run: Run, *when: Start, leaving: bool) -> Iterator[PyinfraCommand]:
    """Starts or renews the services of these starts that the plan has on this node. `leaving`: services that the plan
    no longer has stay for now. Otherwise they are removed, and so are units that no service of this version has.
    """
    found, services = run.look(host), run.plan.of(host.name).services
    gone = [] if leaving else [unit for unit in found["services"]["units"] if is_leftover(unit)]
    idle = True
    for unit in (*(unit for service in registry.starting(*when) for unit in service.units), *gone):
        if unit in services:
            commands = units.renew(found, services[unit], anew=bool(registry.service_of(unit).differs(found)))
        else:
            commands = units.remove(unit) if exists(found, unit) and not leaving else iter(())
        for command in commands:
            idle = False
            yield command
    if idle:
        host.noop("as planned")
