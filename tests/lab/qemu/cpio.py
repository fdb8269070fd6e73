"""Archives as the kernel unpacks them into its first file system (cpio, newc; the kernel's initramfs buffer format)."""

from __future__ import annotations

import os
import stat
from collections.abc import Iterable
from pathlib import Path

_END = "TRAILER!!!"
#: The kernel takes several archives in one file where each begins at such a boundary.
_BLOCK = 512


def entry(name: str, mode: int, content: bytes = b"", owner: int = 0) -> bytes:
    """One file, folder or link (`content`: what it leads to); `mode` as in st_mode, `owner` its user and group."""
    path = name.encode() + b"\0"
    links = 2 if stat.S_ISDIR(mode) else 1
    # Without inode numbers nothing is taken for a hard link, since no file has two links.
    fields = (0, mode, owner, owner, links, 0, len(content), 0, 0, 0, 0, len(path), 0)
    head = b"070701" + b"".join(b"%08X" % field for field in fields) + path
    return _padded(head, 4) + _padded(content, 4)


def tree(folder: Path, below: str) -> Iterable[bytes]:
    """All that lies in a folder, as entries below a path, folders first; with modes and owners as they are."""
    yield entry(below, stat.S_IFDIR | 0o755)
    for path in sorted(folder.rglob("*")):
        found = path.lstat()
        content = b""
        if path.is_symlink():
            content = os.fsencode(path.readlink())
        elif path.is_file():
            content = path.read_bytes()
        yield entry(f"{below}/{path.relative_to(folder)}", found.st_mode, content, found.st_uid)


def archive(entries: Iterable[bytes]) -> bytes:
    """A whole archive, to which another one may be joined."""
    return _padded(b"".join(entries) + entry(_END, 0), _BLOCK)


def _padded(content: bytes, to: int) -> bytes:
    return content + bytes(-len(content) % to)
