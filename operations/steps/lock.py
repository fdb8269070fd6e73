"""One at a time: a deploy, and every verb that changes a node."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from pyinfra import host, state
from pyinfra.api.command import PyinfraCommand
from pyinfra.api.exceptions import DeployError
from pyinfra.api.host import Host

from operations.plan.absence import told
from operations.runner.patience import fail
from operations.runner.run import Run, step
from operations.runner.tether import can_tether


@step
def hold(run: Run) -> Iterator[PyinfraCommand]:
    """Take the lock on the head for as long as this process lives; never a change."""
    if state.is_executing and run.plan.of(host.name).node.is_head and can_tether(host):
        taken = run.lock.take(run.head)
        if why := taken.lost():
            yield fail(why)
            return
        # Somebody may have deployed since the survey, or done anything while the owner thought about "Press enter".
        if not run.lock.is_as_surveyed(taken):
            run.looks.forget()
    host.noop("no other deploy is at work")


@step
def alone(run: Run) -> Iterator[PyinfraCommand]:
    """The same for a verb that changes nodes without a plan."""
    why, head = _unknown(run), _head(run)
    if state.is_executing and head and host.name == head.name:
        why = run.lock.take(head).lost()
    if state.is_executing and why:
        yield fail(why)
        return
    host.noop("no deploy is at work")


@contextmanager
def taken(run: Run) -> Iterator[None]:
    """The same for a verb that changes nodes without operations. Raises DeployError when somebody else is at work."""
    why, head = _unknown(run), _head(run)
    try:
        if why or (head and (why := run.lock.take(head).lost())):
            raise DeployError(why)
        yield
    finally:
        run.lock.release()


def _head(run: Run) -> Host | None:
    """The inventory's first node; None where it can't be asked for the lock."""
    return run.head if run.head.connected and can_tether(run.head) else None


def _unknown(run: Run) -> str:
    """Why nobody can say whether a deploy is at work, with the remedy; empty: the head can, or nothing comes from it,
    and no deploy is at work without it. One that only this machine can't log in to may well be deployed from another.
    """
    absences = () if run.head.connected else run.absent
    away = next((each for each in absences if each.name == run.head.name and not each.dark), None)
    return f"the head has the lock, and can't be asked whether a deploy is at work: {told(away)}" if away else ""
