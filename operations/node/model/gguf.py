"""GGUF, the one file that a model of llama.cpp is (or its parts): is it whole?

The format: docs/gguf.md in ggml's repository; sizes of blocks: ggml-common.h there.
"""

from __future__ import annotations

import re
import struct
from collections.abc import Iterator
from pathlib import Path
from typing import BinaryIO

#: Bytes of plain values by their type's number; 8 is a text, 9 a list.
_PLAIN = {0: 1, 1: 1, 2: 2, 3: 2, 4: 4, 5: 4, 6: 4, 7: 1, 10: 8, 11: 8, 12: 8}
_UINT32, _TEXT, _LIST = 4, 8, 9
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
_MOST = 1 << 20
_PART = re.compile(r"(.+)-(\d{5})-of-(\d{5})\.gguf")


def problems(file: Path) -> list[str]:
    """What its header says against the file: where its last tensor ends."""
    size = file.stat().st_size
    try:
        with file.open("rb") as content:
            end = _end(content)
    except (struct.error, ValueError):
        return [f"{file} is not a GGUF file ({size} bytes)"]
    return [f"{file} has {size} bytes, its header says {end}"] if size < end else []


def missing(snapshot: Path) -> Iterator[tuple[str, str]]:
    """Names of parts that are not there, each with a text; without any file the name is empty."""
    names = {str(file.relative_to(snapshot)) for file in snapshot.rglob("*.gguf")}
    if not any("mmproj" not in name.lower() for name in names):
        yield "", f"{snapshot} has no model in GGUF (*.gguf)"
    for begin, parts in sorted({(found[1], found[3]) for name in names if (found := _PART.fullmatch(name))}):
        for number in range(1, int(parts) + 1):
            name = f"{begin}-{number:05}-of-{parts}.gguf"
            if name not in names:
                yield name, f"{snapshot / name} is missing: the model has {int(parts)} parts"


def _end(content: BinaryIO) -> int:
    """Bytes that the file has at least."""
    magic, version, tensors, values = struct.unpack("<4sIQQ", content.read(24))
    if magic != b"GGUF" or version < 2 or max(tensors, values) > _MOST:
        raise ValueError("no GGUF")
    alignment = 32
    for _ in range(values):
        key, kind = _text(content), _number(content)
        if key == b"general.alignment" and kind == _UINT32:
            alignment = max(_number(content), 1)
        else:
            _skip(content, kind)
    end = 0
    for _ in range(tensors):
        _text(content)
        dimensions = _number(content)
        if dimensions > 8:
            raise ValueError("no tensor has so many dimensions")
        count = 1
        for size in struct.unpack(f"<{dimensions}Q", content.read(8 * dimensions)):
            count *= size
        kind, offset = struct.unpack("<IQ", content.read(12))
        of, length = _BLOCKS.get(kind, (1, 0))
        end = max(end, offset + count // of * length)
    header = content.tell()
    return header + -header % alignment + end if tensors else header


def _number(content: BinaryIO) -> int:
    (number,) = struct.unpack("<I", content.read(4))
    return int(number)


def _text(content: BinaryIO) -> bytes:
    (length,) = struct.unpack("<Q", content.read(8))
    if length > _MOST:
        raise ValueError("no name is so long")
    return content.read(length)


def _pass(content: BinaryIO, length: int) -> None:
    if length > 1 << 40:
        raise ValueError("no value is so long")
    content.seek(length, 1)


def _skip(content: BinaryIO, kind: int) -> None:
    if kind == _TEXT:
        (length,) = struct.unpack("<Q", content.read(8))
        _pass(content, length)
    elif kind == _LIST:
        of, count = struct.unpack("<IQ", content.read(12))
        if of in _PLAIN:
            _pass(content, _PLAIN[of] * count)
        elif of == _LIST or count > 1 << 24:
            raise ValueError("no list is so long, and none has lists")
        else:
            for _ in range(count):
                _skip(content, of)
    elif kind in _PLAIN:
        content.seek(_PLAIN[kind], 1)
    else:
        raise ValueError("a type that GGUF has not")
