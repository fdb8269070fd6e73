"""One at a time: a deploy, and every verb that changes a node."""

from __future__ import annotations

import time
from collections.abc import Generator, Iterator
from contextlib import contextmanager

from pyinfra import host, state
from pyinfra.api.command import PyinfraCommand
from pyinfra.api.exceptions import DeployError
from pyinfra.api.host import Host
from pyinfra.api.operation import operation

from operations import held, looking, reach
from operations.patience import fail
from operations.plan.absence import told
from operations.plan.plan import Plan
from operations.sharing import head_of
from operations.tether import can_tether

#: Seconds for which a survey is taken for the present.
TRUSTED_S = 30
#: The lock's generation when the nodes were surveyed, and when that was.
seen = ""
seen_at = 0.0


@looking.step
def hold(plan: Plan) -> Iterator[PyinfraCommand]:
    """Take the lock on the head for as long as this process lives; never a change."""
    if state.is_executing and plan.of(host.name).node.is_head and can_tether(host):
        taken = held.take(head_of(plan))
        if why := taken.lost():
            yield fail(why)
            return
        # Somebody may have deployed since the survey, or done anything while the owner thought about "Press enter".
        if taken.answer["before"] != seen or time.monotonic() - seen_at > TRUSTED_S:
            looking.forget()
    host.noop("no other deploy is at work")


@operation()
def alone() -> Generator[PyinfraCommand, None, None]:
    """The same for a verb that changes nodes without a plan."""
    why, head = _unknown(), _head()
    if state.is_executing and head and host.name == head.name:
        why = held.take(head).lost()
    if state.is_executing and why:
        yield fail(why)
        return
    host.noop("no deploy is at work")


@contextmanager
def taken() -> Iterator[None]:
    """The same for a verb that changes nodes without operations. Raises DeployError when somebody else is at work."""
    why, head = _unknown(), _head()
    try:
        if why or (head and (why := held.take(head).lost())):
            raise DeployError(why)
        yield
    finally:
        held.release()


def _head() -> Host | None:
    """The inventory's first node; None where it can't be asked for the lock."""
    head: Host = next(iter(state.inventory))
    return head if head.connected and can_tether(head) else None


def _unknown() -> str:
    """Why nobody can say whether a deploy is at work, with the remedy; empty: the head can, or nothing comes from it,
    and no deploy is at work without it. One that only this machine can't log in to may well be deployed from another.
    """
    head: Host = next(iter(state.inventory))
    absences = () if head.connected else reach.absent(state.inventory)
    away = next((each for each in absences if each.name == head.name and not each.dark), None)
    return f"the head has the lock, and can't be asked whether a deploy is at work: {told(away)}" if away else ""
