"""The watch over a LiteLLM: its `/health/liveliness`, which asks no engine and needs no key.

It is answered by the event loop that every request goes through: one that hangs does not answer, and one that is slow
(64 streams on a few cores: seconds) does so late. It is killed within ten seconds; then systemd starts it anew.

One that parses many prompts of megabytes at once, or is read back from swap, may be later still, and a kill would cost
every stream that it has. The CPU time of its container tells it from one that is stopped or waits for itself: one that
computes is given longer, though not for ever, as it may do so in a loop without end.
"""

from __future__ import annotations

import time
from pathlib import Path

import node
from speaking import joined, opened
from watch import Question, Sight, Watch

#: Seconds between two questions, after which an answer is late, and after which a proxy without one hangs.
ASK_S, LATE_S, SILENCE_S = 1.0, 2.5, 6.0
#: Seconds after which one without an answer hangs although it computes.
COMPUTING_S = 30.0
#: Of a core: who uses less computes nothing. LiteLLM's threads beside its event loop look at their clocks.
SHARE = 0.02
#: Seconds for a start: LiteLLM takes 7 to 15, on a loaded machine several times that.
START_S = 120.0


class LiteLLM(Watch):
    """One of those behind this node's proxy."""

    group: Path | None
    #: CPU time that it had used, with the time of the look, of the last seconds in which it was late.
    used: list[tuple[float, float]]

    def __init__(self, unit: str, url: str) -> None:
        super().__init__(LATE_S, SILENCE_S, START_S)
        self.NAME, self.url = unit.removeprefix("tandem-"), url

    def waits(self) -> str:
        """As with the proxy."""
        return node.no_socket(self.url)

    def look(self) -> Sight:
        """One question at a time, for as long as it may live without an answer."""
        asked = self.question
        if asked is None:
            self.question = Question(self.ask)
            return Sight()
        if not asked.done.is_set():
            sight = self.late(asked)
            computes = bool(sight.problem) and self.computes()
            self.silence_s = COMPUTING_S if computes else SILENCE_S
            return Sight(problem=f"{sight.problem}, and it computes", since=sight.since) if computes else sight
        self.question, self.used, self.silence_s = None, [], SILENCE_S
        if not asked.problem and not self.answered_at:
            # Now and not when it is late: Docker may be late as well then.
            self.group = node.control_group(self.unit)
        return Sight(alive=not asked.problem, problem=asked.problem, since=asked.asked)

    def computes(self) -> bool:
        """Whether it has used a core for some of the last seconds."""
        now = time.monotonic()
        self.used = [*(each for each in self.used if now - each[0] <= LATE_S), (now, node.cpu_s(self.group))]
        (begun, before), (_, used) = self.used[0], self.used[-1]
        return used - before > SHARE * (now - begun)

    def pause_s(self) -> float:
        """A word costs it a millisecond."""
        return ASK_S

    def ask(self) -> str:
        """Why it did not say that it lives; empty: it did."""
        # It is judged before the question gives up.
        with opened(joined(self.url, "/health/liveliness"), COMPUTING_S + LATE_S) as response:
            response.read()
        return ""

    def _forget(self, now: float) -> None:
        super()._forget(now)
        self.group, self.used = None, []
