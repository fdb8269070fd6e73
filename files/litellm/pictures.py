"""How large a picture is once it is unpacked, read from its first bytes.

A PNG of 22 kB can be 179 million pixels, and an engine unpacks all pictures of a request: half a GB for this one.
Only what engines and OpenAI's service take is known: PNG, JPEG, GIF and WebP. Each is read as Pillow reads it: a header
that comes twice counts as the larger one.
"""

from __future__ import annotations

import binascii
import string
from collections.abc import Callable
from typing import Literal

#: Blocks before a picture's first pixel. A photo has some twenty, one with large profiles a hundred.
BLOCKS = 512
#: Bytes between them that say nothing, and parts of a GIF's extensions: one has some hundred for a text of 60 kB.
SKIPPED = 2_048
#: Characters of a line and what ends it: writers take 64 or 76.
LINE = 30
#: Characters that are looked at in one step.
_STEP = 1 << 20
_ALPHABET = (string.ascii_letters + string.digits + "+/").encode()
#: JPEG's markers: of a frame's size, of what has a length and is skipped, and without a length.
_FRAMES = frozenset((*range(0xC0, 0xC4), *range(0xC5, 0xC8), *range(0xC9, 0xCC), *range(0xCD, 0xD0), 0xDE))
_SKIPPED = frozenset((0xC4, 0xCC, 0xDB, 0xDC, 0xDD, 0xDF, *range(0xE0, 0xF0), 0xFE))
_BARE = frozenset((0x00, *range(0xD0, 0xDA)))


class _Odd(Exception):
    """It is none of these, or not whole."""


class _Bytes:
    """Bytes of a text in base64, unpacked where they are read."""

    def __init__(self, text: str) -> None:
        self._text = text

    def at(self, offset: int, length: int) -> bytes:
        first = offset // 3 * 4
        piece = self._text[first : first + (length // 3 + 2) * 4]
        try:
            found = binascii.a2b_base64(piece + "=" * (-len(piece) % 4))[offset % 3 :][:length]
        except binascii.Error:
            found = b""
        if len(found) < length:
            raise _Odd
        return found

    def number(self, offset: int, length: int, order: Literal["big", "little"] = "big") -> int:
        return int.from_bytes(self.at(offset, length), order)


def pixels(data: str) -> int | None:
    """Pixels of a picture in base64; None: nobody can tell."""
    # Before it is copied: more lines, or more at its end, than base64 has.
    if data.count("\n") + data.count("\r") > len(data) // LINE + 4 or data.endswith("==="):
        return None
    text = data.replace("\n", "").replace("\r", "")
    if not _is_plain(text):
        # Readers leave out what is no base64, each in its own way, and would see another picture.
        return None
    its = _Bytes(text)
    try:
        begin = its.at(0, 16)
        found = next((read for mark, read in _READERS if begin.startswith(mark)), None)
        return found(its) if found else None
    except _Odd:
        return None


def _is_plain(text: str) -> bool:
    if not text.isascii():
        return False
    body = text.rstrip("=")
    steps = range(0, len(body), _STEP)
    return len(text) - len(body) <= 2 and not any(
        body[at : at + _STEP].encode().translate(None, _ALPHABET) for at in steps
    )


def _png(its: _Bytes) -> int:
    at, most = 8, 0
    for _ in range(BLOCKS):
        length, kind = its.number(at, 4), its.at(at + 4, 4)
        if kind == b"IHDR":
            most = max(most, its.number(at + 8, 4) * its.number(at + 12, 4))
        if kind == b"IDAT":
            break
        at += 12 + length
    else:
        raise _Odd
    return most


def _jpeg(its: _Bytes) -> int:
    at, most, skipped = 2, 0, 0
    for _ in range(BLOCKS):
        # Readers skip what is no marker, and bytes that fill.
        while (found := its.at(at, 2))[0] != 0xFF or found[1] == 0xFF:
            at, skipped = at + 1, skipped + 1
            if skipped > SKIPPED:
                raise _Odd
        marker = found[1]
        if marker == 0xDA:
            return most
        if marker in _BARE:
            at += 2
        elif marker in _FRAMES or marker in _SKIPPED:
            if marker in _FRAMES:
                most = max(most, its.number(at + 5, 2) * its.number(at + 7, 2))
            at += 2 + its.number(at + 2, 2)
        else:
            raise _Odd
    raise _Odd


def _gif(its: _Bytes) -> int:
    width, height, flags = its.number(6, 2, "little"), its.number(8, 2, "little"), its.number(10, 1)
    at, is_within = 13 + (3 << (flags % 8 + 1) if flags & 0x80 else 0), False
    for _ in range(SKIPPED):
        length = its.number(at, 1)
        if is_within:
            # The parts of an extension: each says its length, and the last one has none.
            is_within = length > 0
            at += 1 + length
        elif length == ord("!"):
            kind, length = its.at(at + 1, 2)
            # Behind a first part of no length, or none behind one with this name, Pillow reads on as if more came.
            is_loop = length > 10 and its.at(at + 3, 11) == b"NETSCAPE2.0"
            if kind != 0xFE and (not length or (is_loop and not its.number(at + 3 + length, 1))):
                raise _Odd
            is_within = True
            at += 2
        elif length == ord(";"):
            raise _Odd
        elif length == ord(","):
            # A first frame may be larger than the whole.
            left, top, wide, high = (its.number(at + 1 + 2 * each, 2, "little") for each in range(4))
            return max(width, left + wide) * max(height, top + high)
        else:
            at += 1
    raise _Odd


def _webp(its: _Bytes) -> int:
    if its.at(8, 4) != b"WEBP":
        raise _Odd
    kind = its.at(12, 4)
    if kind == b"VP8X":
        return (its.number(24, 3, "little") + 1) * (its.number(27, 3, "little") + 1)
    if kind == b"VP8L":
        sizes = its.number(21, 4, "little")
        return ((sizes & 0x3FFF) + 1) * ((sizes >> 14 & 0x3FFF) + 1)
    if kind == b"VP8 ":
        return (its.number(26, 2, "little") & 0x3FFF) * (its.number(28, 2, "little") & 0x3FFF)
    raise _Odd


_READERS: tuple[tuple[bytes, Callable[[_Bytes], int]], ...] = (
    (b"\x89PNG\r\n\x1a\n", _png),
    (b"\xff\xd8", _jpeg),
    (b"GIF8", _gif),
    (b"RIFF", _webp),
)
