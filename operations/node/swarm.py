"""Which node to take each file of a model from: a worker that has it already, else the head.

Each worker begins with a part of its own, from the head; what the others have meanwhile it takes from them. So the
head sends each file about once, however many workers there are.
"""

from __future__ import annotations

import http.client
import json
import random
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from itertools import cycle
from threading import Lock

#: Seconds between two looks at what the others have.
LOOK_EVERY_S = 0.5
#: Seconds that a worker has to say what it has.
LOOK_TIMEOUT_S = 2
#: Times that a file is tried before the copy is given up.
TRIES = 2
#: Seconds without a byte until a stream is given up.
TIMEOUT_S = 60


@dataclass
class Source:
    """A node that files can be had from, over each of its rails in turn."""

    addresses: list[str]
    port: int
    have: dict[str, str] = field(default_factory=dict)
    coming: set[str] = field(default_factory=set)

    def __post_init__(self) -> None:
        self._rails = cycle(self.addresses)

    @contextmanager
    def get(
        self, path: str, start: int = 0, headers: dict[str, str] | None = None, timeout_s: float = TIMEOUT_S
    ) -> Iterator[http.client.HTTPResponse]:
        """A page from a byte on; raises OSError for any answer but that."""
        address = next(self._rails)
        connection = http.client.HTTPConnection(address, self.port, timeout=timeout_s)
        try:
            connection.request("GET", path, headers={"Range": f"bytes={start}-", **(headers or {})})
            response = connection.getresponse()
            if response.status not in (200, 206):
                raise OSError(f"{address} answered {response.status} for {path}")
            yield response
        except http.client.HTTPException as error:
            raise OSError(f"{address}: {error or type(error).__name__}") from None
        finally:
            connection.close()

    def look(self) -> bool:
        """Ask what it has and gets; False: it does not answer."""
        try:
            with self.get("/have", timeout_s=LOOK_TIMEOUT_S) as body:
                told = json.load(body)
        except (OSError, ValueError):
            return False
        self.have, self.coming = told["have"], set(told["coming"])
        return True


class Swarm:
    """Gives out files, each once, until all have arrived. Used by several threads."""

    def __init__(self, head: Source, peers: list[Source], wanted: dict[str, str], own: set[str]) -> None:
        """`wanted`: name -> blob of what is missing here; `own`: names that this worker is to take from the head."""
        self._head, self._peers, self._wanted = head, list(peers), wanted
        self._left = sorted(wanted, key=lambda name: name not in own)
        self._own = own
        self._tries: Counter[str] = Counter()
        self._flying: set[str] = set()
        self._looked = 0.0
        self._lock = Lock()

    def coming(self) -> list[str]:
        """Names that are on their way."""
        return list(self._flying)

    def take(self, own_first: bool) -> tuple[str, Source] | None:
        """The next file and who has it; waits while all that is left comes to others. None: nothing is left."""
        while True:
            with self._lock:
                if not self._left:
                    return None
                self._look()
                if found := self._choose(own_first):
                    self._left.remove(found[0])
                    self._flying.add(found[0])
                    return found
            time.sleep(LOOK_EVERY_S / 2)

    def landed(self, name: str) -> None:
        """It is here, whole."""
        with self._lock:
            self._flying.discard(name)

    def failed(self, name: str, source: Source) -> bool:
        """It did not arrive; True: it is tried again. A worker that failed is not asked again, the head is."""
        with self._lock:
            self._flying.discard(name)
            if source is not self._head:
                self._peers = [peer for peer in self._peers if peer is not source]
            else:
                self._tries[name] += 1
            if self._tries[name] < TRIES:
                self._left.append(name)
                return True
            # Nobody goes on with a copy that can't become whole.
            self._left.clear()
            return False

    def _choose(self, own_first: bool) -> tuple[str, Source] | None:
        own = [name for name in self._left if name in self._own and not self._comes_elsewhere(name)]
        if own and own_first:
            return own[0], self._head
        for name in self._left:
            if having := [peer for peer in self._peers if peer.have.get(name) == self._wanted[name]]:
                return name, random.choice(having)
        if own:
            return own[0], self._head
        free = [name for name in self._left if not self._comes_elsewhere(name)]
        return (random.choice(free), self._head) if free else None

    def _comes_elsewhere(self, name: str) -> bool:
        return any(name in peer.coming for peer in self._peers)

    def _look(self) -> None:
        if self._peers and time.monotonic() - self._looked > LOOK_EVERY_S:
            self._looked = time.monotonic()
            for peer in self._peers:
                if not peer.look():
                    peer.have, peer.coming = {}, set()
