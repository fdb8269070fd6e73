"""A watch over something that answers: it is looked at, judged by its signs of life, and killed when it hangs.

A question is asked once, and its answer is waited for beside everything else. Repeated questions would give a busy
program more to do for each answer that it owes. Silence is counted from the question, not from the moment that the
answer is late.
"""

from __future__ import annotations

import threading
import time
from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass

import node

#: Seconds between two looks at something that starts, and at something that fails at once.
STARTING_S, SOON_S = 2.0, 0.5
#: Seconds after a kill until the next look: its unit ends meanwhile.
AFTER_S = 1.0
#: Seconds by which a pause of its own may be too long before the canary blames the machine.
OVERSLEPT_S = 2.0


@dataclass(frozen=True)
class Sight:
    """What one look has shown: a sign of life, a problem, or neither (it rests, or its answer is not late yet)."""

    alive: bool = False
    problem: str = ""
    #: When that was asked which has no answer.
    since: float = 0.0


class Question:
    """One question; `problem` is known when it is `done`, and empty when the answer was right."""

    def __init__(self, ask: Callable[[], str]) -> None:
        self.asked = time.monotonic()
        self.problem, self.took_s = "", 0.0
        self.done = threading.Event()
        self._ask = ask
        threading.Thread(target=self._wait, daemon=True).start()

    def _wait(self) -> None:
        try:
            self.problem = self._ask()
        except Exception as error:
            self.problem = str(error) or type(error).__name__
        self.took_s = time.monotonic() - self.asked
        self.done.set()


class Watch(ABC):
    """One unit and its container, which have the same name."""

    #: What it is called in messages.
    NAME = ""
    #: Seconds of service after which systemd's count of starts begins at nothing; 0: never.
    SETTLED_S = 0.0
    answered_at: float
    silent_since: float
    settled: bool

    def __init__(self, deadline_s: float, silence_s: float, start_s: float, *, acts: bool = True) -> None:
        self.deadline_s, self.silence_s, self.start_s, self.acts = deadline_s, silence_s, start_s, acts
        #: What is wrong now, and why it was killed the last time, with the time.
        self.problem = self.killed = ""
        self.invocation = ""
        self._forget(0.0)

    @property
    def unit(self) -> str:
        return f"tandem-{self.NAME}"

    @abstractmethod
    def look(self) -> Sight:
        """Look once; ask where that is needed."""

    @abstractmethod
    def pause_s(self) -> float:
        """Seconds until the next look, while all is well."""

    def waits(self) -> str:
        """For what it waits before its start begins; empty: for nothing."""
        return ""

    def excuse(self, sight: Sight) -> str:
        """Why it can't be judged now; empty: it can."""
        return ""

    def forever(self) -> None:
        """Look, for ever."""
        while True:
            self.turn()

    def turn(self) -> None:
        """One look, and the pause behind it, which an answer ends."""
        self.step(node.invocation(self.unit))
        pause, begun = self._pause_s(), time.monotonic()
        self.rest(pause)
        late = time.monotonic() - begun - pause
        if late > OVERSLEPT_S:
            self.excuse_lost(late)

    def rest(self, pause: float) -> None:
        """Seconds of no looks, which an answer ends."""
        if self.question:
            self.question.done.wait(pause)
        else:
            time.sleep(pause)

    def excuse_lost(self, late: float) -> None:
        """The machine stood still, or had no time for anybody: what has not answered meanwhile could not.

        Only the seconds that were lost are excused: on a machine that has no time for long, what hangs hangs as well.
        """
        self.since += late
        self.alive_at += late
        if self.silent_since:
            self.silent_since += late
        if self.question:
            self.question.asked += late

    def step(self, invocation: str | None) -> None:
        """One look at this start of the unit (empty: it does not run; None: the last that is known), and what follows.

        A systemd that is slow to say must not make an old start a new one, with the patience of a start.
        """
        if invocation is None:
            invocation = self.invocation
        if invocation != self.invocation:
            self.invocation = invocation
            self._forget(time.monotonic())
        if not invocation:
            return
        if waits := self.waits():
            # A start begins when it waits no longer.
            self.problem, self.since = waits, time.monotonic()
            return
        sight, now = self.look(), time.monotonic()
        if excuse := self.excuse(sight):
            self.problem, self.silent_since, self.alive_at = excuse, 0.0, now
            return
        was_silent = bool(self.silent_since)
        verdict = self.judge(sight, now)
        falls_silent = bool(self.silent_since) and not was_silent
        if verdict == "settle":
            node.reset_restart_count(self.unit)
        if not self.acts:
            # It shows what it sees, for as long as it sees it.
            self.problem, self.silent_since = self.problem if sight.problem else "", 0.0
        elif (verdict == "kill" or falls_silent) and self._is_over():
            return
        elif verdict == "kill":
            # What has answered while systemd was asked is judged by the next look.
            if not (self.question and self.question.done.is_set()):
                self._kill(sight.problem)
        elif falls_silent:
            node.say(f"{self.NAME}: no sign of life: {sight.problem}; it is killed after {self.silence_s:g} s of that")

    def judge(self, sight: Sight, now: float) -> str:
        """What follows: `kill`, `settle` or nothing."""
        if sight.alive:
            self.problem, self.silent_since, self.alive_at, self.is_up = "", 0.0, now, True
            self.answered_at = self.answered_at or now
            if self.SETTLED_S and not self.settled and now - self.answered_at >= self.SETTLED_S:
                self.settled = True
                return "settle"
            return ""
        if not sight.problem:
            return ""
        if not self.is_up:
            self.problem = f"has not answered yet since its start at {self.started} ({sight.problem})"
            return "kill" if now - self.since > self.start_s else ""
        self.problem = sight.problem
        self.silent_since = self.silent_since or max(sight.since, self.alive_at)
        return "kill" if now - self.silent_since >= self.silence_s else ""

    def works(self) -> bool:
        """Whether it has shown a sign of life as lately as an answer may take."""
        lately = time.monotonic() - self.alive_at < self.deadline_s
        return bool(self.answered_at) and lately and not self.problem

    def left_s(self) -> float:
        """Seconds until one that is silent is killed, a moment at least."""
        begun = self.silent_since or time.monotonic()
        return max(0.05, begun + self.silence_s - time.monotonic())

    def late(self, question: Question) -> Sight:
        """A question that waits is no problem for as long as an answer may take."""
        since = max(question.asked, self.alive_at)
        waited = time.monotonic() - since
        return Sight(problem=f"no answer for {waited:.0f} s", since=since) if waited > self.deadline_s else Sight()

    def starts_no_more(self) -> None:
        """It has said that it is up, if not yet that it works: from here it has the patience of one that does."""
        if not self.is_up:
            self.is_up, self.alive_at = True, time.monotonic()

    def _pause_s(self) -> float:
        if not self.is_up:
            return max(self.pause_s(), STARTING_S)
        if self.silent_since and not self.question:
            return min(SOON_S, self.left_s())
        return min(self.pause_s(), self.left_s())

    def _is_over(self) -> bool:
        """Whether the start that was looked at is over: systemd is asked afresh, and what it says is taken up."""
        said = node.invocation(self.unit, afresh=True)
        if said in (self.invocation, None):
            return False
        self.invocation = said
        self._forget(time.monotonic())
        return True

    def _forget(self, now: float) -> None:
        """Another start is another life."""
        self.since, self.started = now, time.strftime("%F %T")
        self.answered_at = self.alive_at = self.silent_since = 0.0
        self.settled, self.problem = False, ""
        #: Whether its start is over.
        self.is_up = False
        self.question: Question | None = None

    def _kill(self, problem: str) -> None:
        whole = self.silence_s if self.is_up else self.start_s
        why = f"no sign of life for {whole:g} s ({problem})"
        node.say(f"{why}: the {self.NAME}'s container is killed, systemd starts it anew")
        self.killed = f"{time.strftime('%F %T')} {why}"
        if node.kill(self.unit):
            # What is still there after that gets the same patience again.
            self.since = self.alive_at = time.monotonic()
            self.silent_since, self.question = 0.0, None
        else:
            node.say(f"Docker has not killed the {self.NAME}'s container; it is asked again")
        time.sleep(AFTER_S)
