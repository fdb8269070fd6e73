"""Which processes have files open, or mapped, whatever their namespace calls them: a file is known by its inode."""

from __future__ import annotations

import os
import re
from collections.abc import Collection, Iterator
from contextlib import suppress
from pathlib import Path

from operations.node.commands import read

_PROCESSES = Path("/proc")
#: A line of `maps`: device and inode (proc_pid_maps(5)).
_MAPPED = re.compile(r"^\S+ \S+ \S+ ([0-9a-f]+):([0-9a-f]+) (\d+)", re.MULTILINE)


def main(files: Collection[str]) -> dict[str, str]:
    """File (device and inode, as store.files has it) -> `vllm (process 123)`, of these that somebody holds."""
    found: dict[str, str] = {}
    for process in (each for each in _PROCESSES.iterdir() if each.name.isdigit() and int(each.name) != os.getpid()):
        # Processes end while they are looked at.
        with suppress(OSError):
            for key in (key for key in _held(process) if key in files):
                found.setdefault(key, f"{read(process / 'comm') or 'a program'} (process {process.name})")
    return found


def _held(process: Path) -> Iterator[str]:
    for descriptor in (process / "fd").iterdir():
        with suppress(OSError):
            there = descriptor.stat()
            yield f"{there.st_dev}:{there.st_ino}"
    for major, minor, inode in _MAPPED.findall(read(process / "maps")):
        yield f"{os.makedev(int(major, 16), int(minor, 16))}:{inode}"
