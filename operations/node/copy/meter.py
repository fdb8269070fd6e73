"""How far a copy is, and what it waits for."""

from __future__ import annotations

import json
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from threading import Lock

from operations.shapes.model import Copied


class Meter:
    """Counts bytes and waits from several threads, and prints where it is once a second.

    `total`: bytes that are to come; 0: not known. `leg`: the only one that there is, where nothing else can be timed.
    """

    def __init__(self, total: int = 0, leg: str = "") -> None:
        self._total, self._done = total, 0
        self._start = self._said = time.monotonic()
        self._waits: Counter[str] = Counter([leg] if leg else [])
        self._lock = Lock()

    def count(self, number: int) -> None:
        """So many more bytes have arrived."""
        with self._lock:
            self._done += number
            self._say()

    def reach(self, number: int) -> None:
        """So many bytes are there now: for what is looked at from outside."""
        with self._lock:
            self._done = number
            self._say()

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
        """Bytes so far, of how many (0: not known), in how many seconds, and the leg that took most of them."""
        limit = self._waits.most_common(1)[0][0] if self._waits else ""
        return {"bytes": self._done, "of": self._total, "seconds": time.monotonic() - self._start, "limit": limit}

    def _say(self) -> None:
        if time.monotonic() - self._said >= 1:
            self._said = time.monotonic()
            print(json.dumps(self.state()), flush=True)
