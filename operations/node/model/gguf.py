"""GGUF, the one file that a model of llama.cpp is (or its parts): its header, and is it whole?

The format: docs/gguf.md in ggml's repository; sizes of blocks: ggml-common.h there.
"""

from __future__ import annotations

import re
import struct
from collections.abc import Iterable, Iterator
from pathlib import Path, PurePosixPath
from typing import Any, BinaryIO

#: A file's name when it is one of several: what all of them begin with, its number, and how many there are.
PART = re.compile(r"(.+)-(\d{5})-of-(\d{5})\.gguf")
#: How plain values are packed, by their type's number; 8 is a text, 9 a list.
_PLAIN = {0: "B", 1: "b", 2: "H", 3: "h", 4: "I", 5: "i", 6: "f", 7: "?", 10: "Q", 11: "q", 12: "d"}
_TEXT, _LIST = 8, 9
#: Types of tensors by number: how many values a block has, and its bytes. One that is not here is not measured.
_BLOCKS = {
    0: (1, 4),
    1: (1, 2),
    30: (1, 2),
    24: (1, 1),
    25: (1, 2),
    26: (1, 4),
    27: (1, 8),
    28: (1, 8),
    2: (32, 18),
    3: (32, 20),
    6: (32, 22),
    7: (32, 24),
    8: (32, 34),
    9: (32, 36),
    20: (32, 18),
    39: (32, 17),
    10: (256, 84),
    11: (256, 110),
    12: (256, 144),
    13: (256, 176),
    14: (256, 210),
    15: (256, 292),
    16: (256, 66),
    17: (256, 74),
    18: (256, 98),
    19: (256, 50),
    21: (256, 110),
    22: (256, 82),
    23: (256, 136),
    29: (256, 56),
    34: (256, 54),
    35: (256, 66),
}
#: More than any model has: a header of noise would be read for ever.
_MOST, _LONGEST, _LONGEST_LIST = 1 << 20, 1 << 40, 1 << 24


class NotGguf(ValueError):
    """The file is something else, or no reader of today's knows it. Says why."""


class Short(NotGguf):
    """It goes on behind what there is of it."""


class Header:
    """A file's head, read from its beginning: how many `tensors` and `values` it has, then `pairs`, then `end`.

    Everything raises NotGguf where it is none, Short where it ends too early.
    """

    def __init__(self, content: BinaryIO) -> None:
        self._content = content
        if (magic := self._take(4)) != b"GGUF":
            raise NotGguf(f"it begins with {magic!r}, and a GGUF file with b'GGUF'")
        if (version := self._number("I")) not in (2, 3):
            raise NotGguf(f"it is GGUF version {version}, and 2 and 3 are read")
        self.tensors, self.values = self._number("Q"), self._number("Q")
        if max(self.tensors, self.values) > _MOST:
            raise NotGguf("its header has more than any model's")

    def pairs(self) -> Iterator[tuple[str, int]]:
        """Each value's name, and its type: whoever is told reads it (`value`) or passes it (`skip`)."""
        for _ in range(self.values):
            yield self._name(), self._number("I")

    def value(self, kind: int) -> Any:
        """The value that comes next."""
        if kind == _TEXT:
            return self._take(self._length()).decode("utf-8", "replace")
        if kind != _LIST:
            return self._number(_packed(kind))
        of, count = self._list()
        if of == _TEXT:
            return [self.value(of) for _ in range(count)]
        # At once: a count that lies is seen before anything is made of it.
        form = f"<{_packed(of)}"
        return [each for (each,) in struct.iter_unpack(form, self._take(count * struct.calcsize(form)))]

    def skip(self, kind: int) -> None:
        """Pass the value that comes next; where the file ends in it is seen by what is read next."""
        if kind == _TEXT:
            self._content.seek(self._length(), 1)
        elif kind == _LIST:
            of, count = self._list()
            if of == _TEXT:
                for _ in range(count):
                    self.skip(of)
            else:
                self._content.seek(count * struct.calcsize(f"<{_packed(of)}"), 1)
        else:
            self._content.seek(struct.calcsize(f"<{_packed(kind)}"), 1)

    def end(self, alignment: int) -> int:
        """Bytes that the file has at least, by its tensors; behind the last value."""
        end = 0
        for _ in range(self.tensors):
            self._name()
            if (dimensions := self._number("I")) > 8:
                raise NotGguf("no tensor has so many dimensions")
            count = 1
            for _ in range(dimensions):
                count *= self._number("Q")
            kind, offset = self._number("I"), self._number("Q")
            of, length = _BLOCKS.get(kind, (1, 0))
            end = max(end, offset + count // of * length)
        header = self._content.tell()
        return header + -header % alignment + end if self.tensors else header

    def _take(self, count: int) -> bytes:
        found = self._content.read(count)
        if len(found) < count:
            raise Short("it ends within its header")
        return found

    def _number(self, form: str) -> Any:
        return struct.unpack(f"<{form}", self._take(struct.calcsize(f"<{form}")))[0]

    def _name(self) -> str:
        if (length := self._number("Q")) > _MOST:
            raise NotGguf("no name is so long")
        return self._take(length).decode("utf-8", "replace")

    def _length(self) -> int:
        if (length := int(self._number("Q"))) > _LONGEST:
            raise NotGguf("no value is so long")
        return length

    def _list(self) -> tuple[int, int]:
        """Type and number of its values."""
        of, count = self._number("I"), int(self._number("Q"))
        if of == _LIST:
            raise NotGguf("its header has lists of lists")
        if count > _LONGEST_LIST:
            raise NotGguf("no list is so long")
        return of, count


def _packed(kind: int) -> str:
    if kind not in _PLAIN:
        raise NotGguf(f"its header has a value of the unknown kind {kind}")
    return _PLAIN[kind]


def problems(file: Path) -> list[str]:
    """What its header says against the file: where its last tensor ends."""
    size = file.stat().st_size
    try:
        with file.open("rb") as content:
            header, alignment = Header(content), 32
            for name, kind in header.pairs():
                if name == "general.alignment":
                    alignment = max(int(header.value(kind)), 1)
                else:
                    header.skip(kind)
            end = header.end(alignment)
    except (ValueError, TypeError):
        return [f"{file} is not a GGUF file ({size} bytes)"]
    return [f"{file} has {size} bytes, its header says {end}"] if size < end else []


def missing(snapshot: Path, there: Iterable[str]) -> Iterator[tuple[str, str]]:
    """Names of parts that are not among those that are `there`, each with a text; where none is, the name is empty."""
    names = {name for name in there if name.endswith(".gguf")}
    if all(is_projector(name) for name in names):
        yield "", f"{snapshot} has no model in GGUF (*.gguf)"
    for begin, parts in sorted({(found[1], found[3]) for name in names if (found := PART.fullmatch(name))}):
        for number in range(1, int(parts) + 1):
            name = f"{begin}-{number:05}-of-{parts}.gguf"
            if name not in names:
                yield name, f"{snapshot / name} is missing: the model has {int(parts)} parts"


def is_projector(name: str) -> bool:
    """Whether a file is what lets a model see: no model of its own."""
    return "mmproj" in PurePosixPath(name).name.lower()
