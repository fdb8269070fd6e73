"""Whether new requests pass a door: asked again and again, each on a connection of its own."""

from __future__ import annotations

import http.client
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from urllib.parse import urlsplit

#: Seconds between two questions, and those that one may take: a client that finds nobody tries again.
PAUSE_S, PATIENCE_S = 0.1, 0.5


@dataclass
class Door:
    """What was seen of it."""

    #: When a request passed last, monotonic, and the longest time in which none did; seconds.
    last: float = field(default_factory=time.monotonic)
    shut_s: float = 0.0

    def passed(self) -> None:
        self.look()
        self.last = time.monotonic()

    def look(self) -> None:
        self.shut_s = max(self.shut_s, time.monotonic() - self.last)


@contextmanager
def passing(url: str) -> Iterator[Door]:
    """Ask the door at this URL while the body runs: it answers while a LiteLLM is up behind it."""
    door, stop, at = Door(), threading.Event(), urlsplit(url)

    def ask() -> None:
        while not stop.wait(PAUSE_S):
            way = http.client.HTTPConnection(at.hostname or "", at.port, timeout=PATIENCE_S)
            try:
                way.request("GET", "/health/liveliness")
                if way.getresponse().status == 200:
                    door.passed()
            except (OSError, http.client.HTTPException):
                pass
            finally:
                way.close()

    thread = threading.Thread(target=ask, daemon=True)
    thread.start()
    try:
        yield door
    finally:
        stop.set()
        thread.join()
        door.look()
