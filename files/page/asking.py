"""Asks the exporter of each node, all at once; who is slow keeps nobody waiting, and what was heard before is said."""

from __future__ import annotations

import http.client
import json
import threading
import time
import urllib.request
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from reading import Reading

#: Seconds for which an answer is good, and for which whoever asks is kept waiting.
GOOD_S, WAIT_S = 2.0, 1.0
#: Seconds after which a node that has not answered does not answer: an exporter waits three for its engine.
SILENT_S = 5.0
#: Bytes of an answer.
MOST = 4 << 20
#: The node's own way to the network, whatever the environment says of proxies.
_OPENER = urllib.request.build_opener(urllib.request.ProxyHandler({}))


@dataclass(frozen=True)
class Heard:
    """A node's newest answer (None: there was none), and since when it has not answered (None: it does)."""

    name: str
    reading: Reading | None
    silent_since: float | None


class Source:
    """One thing to ask: at most one question is under way."""

    def __init__(self, name: str, url: str, read: Callable[[str, float], Any]) -> None:
        self.name, self.url, self._read = name, url, read
        self._lock = threading.Lock()
        self._asking: threading.Thread | None = None
        self._began = 0.0
        self.answer: Any = None
        self.silent_since: float | None = None
        self._good_until = 0.0

    def begin(self) -> threading.Thread | None:
        """The question that is under way, or a new one; None: the answer that is here is good."""
        with self._lock:
            if self._asking and self._asking.is_alive():
                if time.monotonic() - self._began > SILENT_S:
                    self._silent()
                return self._asking
            if time.monotonic() < self._good_until:
                return None
            self._began = time.monotonic()
            self._asking = threading.Thread(target=self._ask, daemon=True)
            self._asking.start()
            return self._asking

    def _ask(self) -> None:
        try:
            answer = self._read(fetched(self.url, SILENT_S), time.time())
        except (OSError, ValueError, KeyError, TypeError, AttributeError):
            with self._lock:
                self._silent()
                self._good_until = time.monotonic() + GOOD_S
            return
        with self._lock:
            self.answer, self.silent_since = answer, None
            self._good_until = time.monotonic() + GOOD_S

    def _silent(self) -> None:
        if self.silent_since is None:
            self.silent_since = time.time()

    def heard(self) -> tuple[Any, float | None]:
        with self._lock:
            return self.answer, self.silent_since


def ask_all(sources: Sequence[Source]) -> None:
    """Ask those whose answer is old, for WAIT_S at most."""
    until = time.monotonic() + WAIT_S
    for asking in [source.begin() for source in sources]:
        if asking:
            asking.join(max(0.0, until - time.monotonic()))


def fetched(url: str, wait_s: float) -> str:
    """The body that `url` answers with, as text. It may take `wait_s` seconds in all.

    Raises OSError where there is none in time, where it breaks off, and where it has more than MOST bytes.
    """
    until = time.monotonic() + wait_s
    try:
        with _OPENER.open(url, timeout=wait_s) as answer:
            said = bytearray()
            while piece := answer.read1(1 << 16):
                said += piece
                if time.monotonic() > until:
                    raise TimeoutError("too slow")
                if len(said) > MOST:
                    raise OSError("too much")
            # What is left of what was promised: http.client does not mind.
            if answer.length:
                raise OSError("it broke off")
    except (ValueError, http.client.HTTPException) as error:
        # Something that is no HTTP answers there.
        raise OSError(str(error)) from error
    return said.decode(errors="replace")


def as_json(text: str) -> Any:
    """What another program has said as JSON; raises ValueError."""
    return json.loads(text)
