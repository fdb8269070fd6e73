"""One deploy at a time."""

from __future__ import annotations

import getpass
import os
import socket
import time
from collections.abc import Iterator

from pyinfra import host, state
from pyinfra.api.command import PyinfraCommand

from operations import looking
from operations.patience import fail
from operations.plan.plan import Plan
from operations.tether import Tether, can_tether

#: Seconds for which a survey is taken for the present.
TRUSTED_S = 30
#: The lock's generation when the nodes were surveyed, and when that was.
seen = ""
seen_at = 0.0
_held: list[Tether] = []


@looking.step
def hold(plan: Plan) -> Iterator[PyinfraCommand]:
    """Take the lock on the head for as long as this process lives; never a change."""
    if state.is_executing and plan.of(host.name).node.is_head and can_tether(host):
        owner = f"{getpass.getuser()}@{socket.gethostname()} (pid {os.getpid()})"
        tether = Tether(host, "lock", owner=owner)
        answer = tether.read()
        _held.append(tether)
        if not answer.get("held"):
            yield fail(
                f"another deploy is at work: {answer.get('owner')} since {answer.get('since')}. "
                "Wait for it; the lock ends with it, or 15 seconds after its machine is gone"
            )
            return
        # Somebody may have deployed since the survey, or done anything while the owner thought about "Press enter".
        if answer["before"] != seen or time.monotonic() - seen_at > TRUSTED_S:
            looking.forget()
    host.noop("no other deploy is at work")


def release() -> None:
    """Let go before this process ends."""
    while _held:
        _held.pop().close()
