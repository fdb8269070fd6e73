"""The watch over the proxy: HAProxy, which answers `/health/liveliness` itself, in a millisecond.

Whatever it says is a sign of life: 503 means that no LiteLLM is up behind it, which is not its fault. New requests
shall pass three seconds after it has stopped: so it is asked twice a second, and killed after two without an answer.
"""

from __future__ import annotations

import urllib.error

import node
from speaking import joined, opened
from watch import Question, Sight, Watch

#: Seconds between two questions, after which an answer is late, and after which a proxy without one hangs.
ASK_S, LATE_S, SILENCE_S = 0.5, 1.0, 2.0
#: Seconds for a start, with what its `ready.sh` waits for left out. One of an older plan's listens elsewhere: a deploy
#: renews it when it has waited for a LiteLLM (START_S in operations/runner/successors.py).
START_S = 180.0


class Proxy(Watch):
    """The proxy on this node."""

    NAME = "proxy"

    def __init__(self, url: str) -> None:
        super().__init__(LATE_S, SILENCE_S, START_S)
        self.url = url

    def waits(self) -> str:
        """Its start has not got so far, or it is one of an older plan's, which listens elsewhere."""
        return node.no_socket(self.url)

    def look(self) -> Sight:
        """One question at a time."""
        asked = self.question
        if asked is None:
            self.question = Question(self.ask)
            return Sight()
        if not asked.done.is_set():
            return self.late(asked)
        self.question = None
        return Sight(alive=not asked.problem, problem=asked.problem, since=asked.asked)

    def pause_s(self) -> float:
        """A word costs it nothing."""
        return ASK_S

    def ask(self) -> str:
        """Why it said nothing; empty: it did."""
        try:
            with opened(joined(self.url, "/health/liveliness"), SILENCE_S * 5) as response:
                response.read()
        except urllib.error.HTTPError:
            pass
        return ""
