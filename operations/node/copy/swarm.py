"""Which node to take each file of a model from: a worker that has it already, else the head.

Each worker begins with a part of its own, from the head; what the others have meanwhile it takes from them. So the
head sends each file about once, however many workers there are.
"""

from __future__ import annotations

import random
import time
from collections import Counter
from threading import Lock, Thread
from typing import NamedTuple

from operations.node.copy.source import Source

#: Files that a worker gives to others at once: they fill both rails, and whoever is turned away finds another soon.
UPLOADS = 3
#: Seconds between two looks at what the others have.
LOOK_EVERY_S = 0.5
#: Seconds after which a worker that does not answer is not waited for any more.
GRACE_S = 5
#: Files in flight at once: some arrive over both rails while others are hashed or wait for the disk.
STREAMS = 8
#: Of them those that the head sends at once while there are other workers: what has landed can be handed on.
FROM_HEAD = 4
#: Times that a file is tried before the copy is given up.
TRIES = 2


class Task(NamedTuple):
    """A file, who to take it from, and over which of the rails."""

    name: str
    source: Source
    rail: int


class Swarm:
    """Gives out files, each once, until all have arrived. Used by several threads."""

    def __init__(self, head: Source, peers: list[Source], part: int, files: dict[str, str], wanted: list[str]) -> None:
        """`part`: which of the workers this is; `files`: name -> blob of the whole model; `wanted`: what is missing."""
        self._head, self._peers = head, list(peers)
        self._files, self._left = files, list(wanted)
        workers = 1 + len(peers)
        self._number = {name: number for number, name in enumerate(files)}
        self._workers, self._part = workers, part
        self._tries: Counter[str] = Counter()
        self._busy_rails: Counter[int] = Counter()
        self._flying: set[str] = set()
        self._here = set(files) - set(wanted)
        self._began = time.monotonic()
        self._lock = Lock()
        # Each has a thread of its own, and none holds the lock: one that is silent makes nobody wait.
        for peer in self._peers:
            Thread(target=self._look, args=[peer], daemon=True).start()

    def have(self) -> dict[str, str]:
        """name -> blob of what is here, whole."""
        return {name: self._files[name] for name in list(self._here)}

    def coming(self) -> list[str]:
        """Names that are on their way."""
        return list(self._flying)

    def take(self, own_first: bool) -> Task | None:
        """The next file and who has it; waits while all that is left comes to others. None: nothing is left."""
        while True:
            with self._lock:
                if not self._left:
                    return None
                if found := self._choose(own_first):
                    name, source = found
                    self._left.remove(name)
                    self._flying.add(name)
                    rails = len(source.addresses)
                    # The one that least is going on over; not all workers begin with the same.
                    first = self._number[name] + self._tries[name]
                    rail = min(
                        (number % rails for number in range(first, first + rails)), key=self._busy_rails.__getitem__
                    )
                    self._busy_rails[rail] += 1
                    return Task(name, source, rail)
            time.sleep(LOOK_EVERY_S / 4)

    def landed(self, task: Task) -> None:
        """It is here, whole."""
        with self._lock:
            self._end(task)
            self._here.add(task.name)

    def put_back(self, task: Task) -> None:
        """Its source is busy: from another one, or later."""
        with self._lock:
            self._end(task)
            self._left.append(task.name)
            task.source.busy_until = time.monotonic() + LOOK_EVERY_S

    def failed(self, task: Task) -> bool:
        """It did not arrive; True: it is tried again. A worker that failed is not asked again, the head is."""
        with self._lock:
            self._end(task)
            self._tries[task.name] += task.source is self._head
            self._peers = [peer for peer in self._peers if peer is not task.source]
            if self._tries[task.name] < TRIES:
                self._left.append(task.name)
                return True
            # Nobody goes on with a copy that can't become whole.
            self._left.clear()
            return False

    def _end(self, task: Task) -> None:
        self._flying.discard(task.name)
        self._busy_rails[task.rail] -= 1

    def _choose(self, own_first: bool) -> tuple[str, Source] | None:
        mine = self._next_from_head()
        if mine and (own_first or not self._peers):
            return mine, self._head
        free = [peer for peer in self._peers if peer.busy_until < time.monotonic()]
        # Not all the same: what one has taken the others can have from it.
        for name in random.sample(self._left, len(self._left)):
            if having := [peer for peer in free if peer.have.get(name) == self._files[name]]:
                return name, random.choice(having)
        return (mine, self._head) if mine else None

    def _next_from_head(self) -> str:
        """A file that is this worker's to take from the head, or that nobody cares for; empty: none, or not yet."""
        landed = self._here.union(*(peer.have for peer in self._peers))
        on_the_way = 0
        for name in self._files:
            if name in landed:
                continue
            on_the_way += 1
            if on_the_way > (FROM_HEAD if self._peers else STREAMS):
                return ""
            is_mine = self._number[name] % self._workers == self._part
            if name in self._left and (is_mine or not self._is_cared_for(name)):
                return name
        return ""

    def _is_cared_for(self, name: str) -> bool:
        owner = self._number[name] % self._workers
        begins = time.monotonic() - self._began < GRACE_S
        return any(name in p.coming or (p.part == owner and (p.answers or begins)) for p in self._peers)

    def _look(self, peer: Source) -> None:
        """What a worker has, again and again, as long as something may be taken from it."""
        while self._may_take_from(peer):
            peer.look()
            time.sleep(LOOK_EVERY_S)

    def _may_take_from(self, peer: Source) -> bool:
        with self._lock:
            return bool(self._left or self._flying) and peer in self._peers
