"""What the LiteLLM of a node know of each other: counts, added up over those that live, and a table of marks.

Each process has a file of its own, which it alone writes, and holds a lock on it: a file that nobody holds belongs to a
process that has died, however it did, and counts no more. They are files in memory (/run), mapped; a look costs some
microseconds. Without a folder a process knows itself alone.
"""

from __future__ import annotations

import fcntl
import hashlib
import mmap
import os
import secrets
import struct
import time
from pathlib import Path

#: A name as 16 bytes of its hash, and its number. The number is written in one piece.
_SLOT = struct.Struct("<16sq")
#: Names that a process may count: engines, and nine of each key of a client's (door_limits.py), of which there are a
#: thousand at most.
SLOTS = 1 << 14
#: Marks that are kept; one more takes the place of the one with its hash: about as many beginnings of conversations.
MARKS = 1 << 17
#: Seconds between two looks at who else lives. For so long one that has died counts on.
LOOK_S = 1.0


def mark(*words: bytes) -> bytes:
    """16 bytes that stand for words."""
    return hashlib.blake2b(b"\0".join(words), digest_size=16).digest()


class Counts:
    """Numbers by name, this process's own and those of the others."""

    def __init__(self, folder: Path | None) -> None:
        self._folder = folder
        #: Where each name is, and its hash.
        self._own: dict[str, tuple[int, bytes]] = {}
        self._others: dict[str, _Other] = {}
        self._looked = float("-inf")
        self._file = secrets.token_hex(8) + ".counts"
        self._map: mmap.mmap | None = None
        if folder:
            # Under its name when it is locked: a file that nobody holds is removed by whoever sees it.
            aside = folder / f"{self._file}.part"
            self._held = os.open(aside, os.O_RDWR | os.O_CREAT | os.O_EXCL, 0o600)
            os.ftruncate(self._held, SLOTS * _SLOT.size)
            fcntl.flock(self._held, fcntl.LOCK_EX)
            aside.rename(folder / self._file)
            self._map = mmap.mmap(self._held, SLOTS * _SLOT.size)

    def set(self, name: str, number: int) -> None:
        """What this process has of it now. More names than there is room for are its own secret."""
        slot = self._own.get(name)
        if slot is None:
            slot = self._own[name] = (len(self._own), mark(name.encode()))
        if self._map and slot[0] < SLOTS:
            _SLOT.pack_into(self._map, slot[0] * _SLOT.size, slot[1], number)

    def others(self, name: str) -> int:
        """What all other processes that live have of it."""
        return sum(self.each(name))

    def each(self, name: str) -> list[int]:
        """The same, of one after the other."""
        if self._folder is None:
            return []
        if time.monotonic() - self._looked >= LOOK_S:
            self._look(self._folder)
        if not self._others:
            return []
        slot = self._own.get(name)
        wanted = slot[1] if slot else mark(name.encode())
        return [other.number(wanted) for other in self._others.values()]

    def _look(self, folder: Path) -> None:
        self._looked = time.monotonic()
        there = {path.name: path for path in folder.glob("*.counts") if path.name != self._file}
        for name in self._others.keys() - there.keys():
            del self._others[name]
        for name, path in there.items():
            try:
                if name not in self._others:
                    self._others[name] = _Other(path)
                if not self._others[name].lives():
                    path.unlink(missing_ok=True)
                    del self._others[name]
            except (FileNotFoundError, PermissionError):
                # The second is one that runs as root still, or again: another version.
                self._others.pop(name, None)


class _Other:
    """Another process's file."""

    def __init__(self, path: Path) -> None:
        # Closed with this object, and not opened where the file has just gone.
        self._file = path.open("r+b", buffering=0)
        # Whole: one of another version may have fewer slots.
        self._map = mmap.mmap(self._file.fileno(), 0, prot=mmap.PROT_READ)
        #: Where a name is: slots are given out once, from the first on.
        self._index: dict[bytes, int] = {}

    def lives(self) -> bool:
        try:
            fcntl.flock(self._file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return True
        return False

    def number(self, wanted: bytes) -> int:
        index = self._index.get(wanted)
        while index is None:
            following = len(self._index)
            if following * _SLOT.size == len(self._map):
                return 0
            name, _ = _SLOT.unpack_from(self._map, following * _SLOT.size)
            if name == bytes(16):
                return 0
            self._index[name] = following
            index = following if name == wanted else None
        return int(_SLOT.unpack_from(self._map, index * _SLOT.size)[1])


class Marks:
    """A number for each mark (bytes); all processes read and write the same. Old ones give way to new ones."""

    def __init__(self, folder: Path | None, name: str = "marks") -> None:
        size = MARKS * _SLOT.size
        if folder is None:
            self._map = mmap.mmap(-1, size)
            return
        file = os.open(folder / name, os.O_RDWR | os.O_CREAT, 0o600)
        # The same size for all: whoever is first makes it.
        os.ftruncate(file, size)
        self._map = mmap.mmap(file, size)
        os.close(file)

    def get(self, *words: bytes) -> int | None:
        """None: it was never put, or has given way."""
        return self.of(mark(*words))

    def put(self, number: int, *words: bytes) -> None:
        """It is there, with this number. Two that write at once leave one of both, or none."""
        self.set(mark(*words), number)

    def of(self, mark: bytes) -> int | None:
        """The same as `get`, by what `mark` makes of the words: for whoever asks again and again."""
        name, number = _SLOT.unpack_from(self._map, self._at(mark))
        return int(number) if name == mark else None

    def set(self, mark: bytes, number: int) -> None:
        """The same as `put`, by what `mark` makes of the words."""
        _SLOT.pack_into(self._map, self._at(mark), mark, number)

    def _at(self, mark: bytes) -> int:
        return int.from_bytes(mark[:8], "little") % MARKS * _SLOT.size


def folder() -> Path | None:
    """Where the LiteLLM of this node share; None: this one is alone."""
    place = os.environ.get("TANDEM_SHARED", "")
    return Path(place) if place else None


#: Of this process.
counts = Counts(folder())
marks = Marks(folder())
#: What is known of engines and of requests over which they die. Others' conversations take none of their places.
incidents = Marks(folder(), "incidents")
