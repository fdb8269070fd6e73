"""The lock that a run holds on the head, and whether it still does: asked before each change.

The head frees a lock after 15 seconds without a beat, whatever this process believes: its machine may have slept, or
the network. So the head confirms each beat, and only what it has confirmed of late counts.
"""

from __future__ import annotations

import getpass
import os
import socket
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager

import gevent
from pyinfra import state
from pyinfra.api.command import PyinfraCommand
from pyinfra.api.host import Host
from pyinfra.api.state import State

from operations.node import lock
from operations.node.beats import SILENCE_S
from operations.runner.patience import fail
from operations.runner.tether import BEAT_S, Tether, clock

#: Seconds after which a beat that was confirmed has to be followed by another before anything is changed.
FRESH_S = 2 * BEAT_S
#: Seconds for which a survey is taken for the present.
TRUSTED_S = 30


class Lease:
    """The lock on a node; `answer` is what the node said when it was asked for it (operations/node/lock.py)."""

    def __init__(self, where: Host, what: str = "deploy") -> None:
        self.where = where
        self._what = what
        self._owner = f"{getpass.getuser()}@{socket.gethostname()} (pid {os.getpid()})"
        self._lost = ""
        self._is_away = False
        self._ask()
        if not self.answer.get("held"):
            other = self.answer.get("what", "deploy")
            who = f"{'another' if other == what else 'a'} {other} is at work: {self.answer.get('owner')}"
            self._lost = (
                f"{who} since {self.answer.get('since')}. "
                f"Wait for it; the lock ends with it, or {SILENCE_S} seconds after its machine is gone"
            )

    def _ask(self) -> None:
        # It can't have been freed before this and the silence that the node waits for.
        self._confirmed = clock()
        self._tether = Tether(self.where, lock.main, owner=self._owner, what=self._what)
        self.answer = self._tether.read()
        self._listener = gevent.spawn(self._listen, self._tether)

    def _listen(self, tether: Tether) -> None:
        while said := tether.read():
            self._confirmed = max(self._confirmed, said["beat"])

    def lost(self) -> str:
        """Why nothing must be changed any more, as a sentence; empty: the lock is held."""
        while self._is_away:
            gevent.sleep(0.05)
        if not self._lost and clock() - self._confirmed > FRESH_S:
            asked = clock()
            self._tether.beat()
            while not self._listener.ready() and self._confirmed < asked and clock() - asked < SILENCE_S:
                gevent.sleep(0.05)
            if self._confirmed < asked:
                self._lose(f"the head has not confirmed it for {clock() - self._confirmed:.0f} s")
        if self._listener.ready():
            self._lose("the head has let it go")
        return self._lost

    def _lose(self, why: str) -> None:
        self._lost = (
            self._lost or f"this {self._what} has lost its lock ({why}): somebody else may be at work; run it again"
        )

    @contextmanager
    def away(self) -> Iterator[None]:
        """For code that closes the node's connection and opens it again: the lock is taken again behind it, and
        `lost` waits until then.

        The lease is lost where somebody else had the lock meanwhile, or the connection did not come back. What the
        code raises is passed on.
        """
        self._is_away = True
        try:
            yield
            self._take_again()
        except Exception:
            self._lose("its connection did not come back")
            raise
        finally:
            self._is_away = False

    def _take_again(self) -> None:
        generation, deadline = self.answer.get("generation"), clock() + SILENCE_S + BEAT_S
        self.close()
        self._ask()
        # The node may not have noticed yet that the old connection is gone.
        while not self.answer.get("held") and self.answer.get("owner") == self._owner and clock() < deadline:
            gevent.sleep(1)
            self.close()
            self._ask()
        # Whatever anybody else did meanwhile, the plan knows nothing of it.
        if not self.answer.get("held") or self.answer["before"] != generation:
            self._lose("somebody else has taken it while the connection was renewed")

    def close(self) -> None:
        """Gives the lock back, and ends the connection that holds it."""
        self._listener.kill()
        self._tether.close()


class Lock:
    """What one run holds, and has to hold while it changes anything."""

    def __init__(self) -> None:
        self._held: list[Lease] = []
        #: Its generation when the nodes were surveyed, and when that was.
        self._surveyed: tuple[str, float] = "", 0.0

    def surveyed(self, generation: str) -> None:
        """The nodes have been surveyed, at this generation of the lock."""
        self._surveyed = generation, time.monotonic()

    def is_as_surveyed(self, hold: Lease) -> bool:
        """Whether nobody has had the lock since the survey, and that is not long ago."""
        generation, when = self._surveyed
        return bool(hold.answer["before"] == generation) and time.monotonic() - when <= TRUSTED_S

    def take(self, where: Host, what: str = "deploy") -> Lease:
        """Ask a node for the lock (itself, not pyinfra's `host`); `lost()` of what comes back says why it was not
        given.
        """
        hold = Lease(where, what)
        self._held.append(hold)
        return hold

    def across(self, step: Callable[[State, Host], bool]) -> Callable[[State, Host], bool]:
        """A step that closes its node's connection and opens it again: a lock that is held over it goes with it."""

        def run(state: State, host: Host) -> bool:
            with ExitStack() as stack:
                for hold in self._held:
                    if hold.where.name == host.name:
                        stack.enter_context(hold.away())
                return step(state, host)

        return run

    def lost(self) -> str:
        """Why this run must not change anything, as a sentence; empty: it holds its lock, or has asked for none."""
        return next((why for hold in self._held if (why := hold.lost())), "")

    def release(self) -> None:
        """Let go before this process ends."""
        while self._held:
            self._held.pop().close()

    def guarded(self, commands: Iterator[PyinfraCommand]) -> Iterator[PyinfraCommand]:
        """These commands, each only while the lock is held; the first one that must not run fails its node instead."""
        for command in commands:
            if state.is_executing and (why := self.lost()):
                yield fail(why)
                return
            yield command
