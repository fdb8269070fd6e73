"""The watch over the proxy: LiteLLM's `/health/liveliness`, which asks no engine and needs no key.

It is answered by the event loop that every request goes through: one that hangs does not answer, and one that is slow
(64 streams on a few cores: seconds) does so late. It is killed within ten seconds; then systemd starts it anew.
"""

from __future__ import annotations

import urllib.request

from watch import Question, Sight, Watch

#: Seconds between two questions, after which an answer is late, and after which a proxy without one hangs.
ASK_S, LATE_S, SILENCE_S = 1.0, 2.5, 7.5
#: Seconds for a start: LiteLLM takes 7 to 15, on a loaded machine several times that.
START_S = 120.0


class Proxy(Watch):
    """The proxy on this node."""

    NAME = "proxy"

    def __init__(self, url: str) -> None:
        super().__init__(LATE_S, SILENCE_S, START_S)
        self.url = url

    def look(self) -> Sight:
        """One question at a time, for as long as it may live without an answer."""
        asked = self.question
        if asked is None:
            self.question = Question(self.ask)
            return Sight()
        if not asked.done.is_set():
            return self.late(asked)
        self.question = None
        return Sight(alive=not asked.problem, problem=asked.problem, since=asked.asked)

    def pause_s(self) -> float:
        """A word costs it a millisecond."""
        return ASK_S

    def ask(self) -> str:
        """Why it did not say that it lives; empty: it did."""
        with urllib.request.urlopen(f"{self.url}/health/liveliness", timeout=SILENCE_S) as response:
            response.read()
        return ""
