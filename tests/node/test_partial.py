"""A file that is being written around the page cache: its bytes, where it goes on, and errors."""

from __future__ import annotations

import errno
import os
from pathlib import Path

import pytest

from operations.node.copy.partial import ALIGNMENT, BLOCK, PartialFile

OWNER = (os.getuid(), os.getgid())


def put(target: PartialFile, content: bytes) -> None:
    """As a copy does it: fill the buffer, write it."""
    for start in range(0, len(content), BLOCK):
        piece = content[start : start + BLOCK]
        target.buffer[: len(piece)] = piece
        target.write(len(piece))


@pytest.mark.parametrize("size", [0, 1, ALIGNMENT, BLOCK - 1, BLOCK, 5 * BLOCK + 5])
def test_bytes_land_in_their_order(tmp_path: Path, size: int) -> None:
    content = os.urandom(size)
    with PartialFile(tmp_path / "a.part", size, OWNER) as target:
        put(target, content)
        assert target.sync() == size
    assert (tmp_path / "a.part").read_bytes() == content


def test_it_goes_on_behind_the_last_whole_page(tmp_path: Path) -> None:
    content = os.urandom(3 * BLOCK)
    (tmp_path / "a.part").write_bytes(content[: BLOCK + 5000])
    with PartialFile(tmp_path / "a.part", len(content), OWNER) as target:
        assert target.start == BLOCK + 5000 // ALIGNMENT * ALIGNMENT
        assert b"".join(map(bytes, target.beginning())) == content[: target.start]
        put(target, content[target.start :])
        assert target.sync() == len(content)
    assert (tmp_path / "a.part").read_bytes() == content


def test_a_write_that_fails_is_not_lost(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_: object) -> int:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(os, "write", full)
    with pytest.raises(OSError, match="No space left"), PartialFile(tmp_path / "a.part", BLOCK, OWNER) as target:
        put(target, bytes(BLOCK))
        target.sync()
