"""What starts last: what each node exports for Prometheus, and the page that shows it. Nothing waits for them."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import partial
from itertools import chain

import gevent
from pyinfra import host
from pyinfra.api.command import PyinfraCommand
from pyinfra.api.host import Host
from pyinfra.api.state import State

from operations.node.monitoring import handed
from operations.paths import PAGE
from operations.plan.config.refusal import Refusal
from operations.plan.decide.unit_state import exists
from operations.plan.plan import Plan
from operations.plan.services import registry
from operations.plan.services.contract import Contract, Start
from operations.runner import units
from operations.runner.patience import python_step
from operations.runner.remote import hand_or_none
from operations.runner.run import Run, step
from operations.wire.page import Taken


@step
def export(run: Run) -> Iterator[PyinfraCommand]:
    """The exporter of this node, and what else starts at the end, as planned."""
    yield from _run(run, registry.starting(Start.AT_END))


@step
def show(run: Run, advice: Callable[[Plan, int], str]) -> Iterator[PyinfraCommand]:
    """The page of this node, as planned, with the owner's key as it is now. `advice`: what a page is told of benches,
    of a plan on so many nodes; it is asked where a page is started.
    """
    yield from _run(run, [registry.service_of(PAGE)], python_step(partial(_hand_over, run, advice)))


def _run(run: Run, services: Sequence[Contract], first: PyinfraCommand | None = None) -> Iterator[PyinfraCommand]:
    """Each is placed and runs as planned, or is taken away. `first`: what is run before one starts."""
    idle = True
    for service, unit in ((each, unit) for each in services for unit in each.units):
        program, found = run.plan.of(host.name).services.get(unit), run.look(host)
        commands = units.remove(unit) if exists(found, unit) else iter(())
        if program:
            renewed = units.renew(found, program, anew=bool(service.differs(found)), before=first)
            commands = chain(units.place_service(program, found["files"]), renewed)
        for command in commands:
            idle = False
            yield command
    if idle:
        host.noop("as planned")


def _hand_over(run: Run, advice: Callable[[Plan, int], str], _state: State, where: Host) -> bool:
    """Each plan has a page of its own, so one that serves already is not computed again. What can't be told is left out
    of the page, and keeps nobody waiting.
    """
    try:
        said: Taken | None = hand_or_none(where, _told(run, advice), handed.main)
        problem = "this node did not take it" if said is None else said.get("problem", "")
    except (Refusal, OSError, ValueError) as error:
        problem = " ".join(str(error).split())
    if problem:
        where.log(f"the page does not say what `tandem bench` measured: {problem}")
    return True


def _told(run: Run, advice: Callable[[Plan, int], str]) -> str:
    """Computed beside the lock's beats: it may take seconds, and who is silent for fifteen loses the lock."""

    def compute() -> str:
        told: str = gevent.get_hub().threadpool.apply(advice, (run.plan, len(list(run.state.inventory))))
        return told

    return run.once("page", compute)
