"""How far a copy is, and what it waits for."""

from __future__ import annotations

import json
import time
from collections import Counter, deque
from collections.abc import Iterator
from contextlib import contextmanager
from threading import Lock

from operations.wire.model import Copied

#: Seconds over which a rate is taken: what comes now, not what has come on the average.
WINDOW_S = 10


class Meter:
    """Counts bytes and waits from several threads, and prints where it is once a second.

    `total`: bytes that are to come; 0: not known. `leg`: the only one that there is, where nothing else can be timed.
    """

    def __init__(self, total: int = 0, leg: str = "") -> None:
        self._total, self._done = total, 0
        self._start = self._said = time.monotonic()
        #: When a line was said, and how much had arrived by then; the oldest is as old as the window.
        self._marks = deque([(self._start, 0)])
        self._grew = self._start
        self._waits: Counter[str] = Counter([leg] if leg else [])
        self._lock = Lock()

    def count(self, number: int) -> None:
        """So many more bytes have arrived."""
        with self._lock:
            self._arrived(self._done + number)

    def reach(self, number: int) -> None:
        """So many bytes are there now: for what is looked at from outside."""
        with self._lock:
            self._arrived(number)

    @contextmanager
    def waiting(self, leg: str) -> Iterator[None]:
        """The time that the body takes goes to a leg of the copy: `link`, `hash`, `disk`."""
        begun = time.monotonic()
        try:
            yield
        finally:
            with self._lock:
                self._waits[leg] += time.monotonic() - begun  # type: ignore[assignment]

    def state(self) -> Copied:
        """Bytes so far, of how many (0: not known), in how many seconds, bytes a second of late, seconds since the last
        one, and the leg that took most of the time.
        """
        limit = self._waits.most_common(1)[0][0] if self._waits else ""
        now, (then, had) = time.monotonic(), self._marks[0]
        rate = max(0.0, (self._done - had) / max(now - then, 0.001))
        told: Copied = {"bytes": self._done, "of": self._total, "seconds": now - self._start, "limit": limit}
        return told | {"rate": rate, "still": now - self._grew}

    def _arrived(self, number: int) -> None:
        now = time.monotonic()
        if number != self._done:
            self._done, self._grew = number, now
        if now - self._said >= 1:
            self._said = now
            self._marks.append((now, self._done))
            while len(self._marks) > 1 and now - self._marks[1][0] >= WINDOW_S:
                self._marks.popleft()
            print(json.dumps(self.state()), flush=True)
