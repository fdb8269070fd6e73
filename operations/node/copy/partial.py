"""A file that is not whole yet, written around the page cache.

On unified memory the page cache is memory that an engine misses; and the copy into it costs more than the hash
(measured for 2 GiB on two cores: 1.0 to 2.2 s of CPU through the cache, 0.2 s around it).
"""

from __future__ import annotations

import errno
import fcntl
import mmap
import os
from collections.abc import Iterator
from pathlib import Path
from types import TracebackType

#: Bytes that are received, hashed and written at a time.
BLOCK = 4 << 20
#: What O_DIRECT wants offsets and lengths to be multiples of, on any disk.
ALIGNMENT = 4096


class PartialFile:
    """Use as a context: goes on behind the whole blocks that an earlier try has left."""

    def __init__(self, path: Path, size: int, owner: tuple[int, int]) -> None:
        self._path = path
        there = path.stat().st_size if path.exists() else 0
        #: Bytes that are there already; one that is longer than the file shall be is begun anew.
        self.start = 0 if there > size else there if there == size else there - there % ALIGNMENT
        self._descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
        os.fchown(self._descriptor, *owner)
        os.ftruncate(self._descriptor, self.start)
        #: Where what is to be written is put; a mapping of its own begins where a page does.
        self.buffer = memoryview(mmap.mmap(-1, BLOCK))

    def __enter__(self) -> PartialFile:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None
    ) -> None:
        os.close(self._descriptor)

    def beginning(self) -> Iterator[memoryview]:
        """What an earlier try has left, through the buffer."""
        os.lseek(self._descriptor, 0, os.SEEK_SET)
        left = self.start
        while left and (size := os.readv(self._descriptor, [self.buffer[: min(left, BLOCK)]])):
            left -= size
            yield self.buffer[:size]

    def write(self, size: int) -> None:
        """So many bytes of the buffer, behind what is there."""
        self._direct(size % ALIGNMENT == 0)
        written = 0
        while written < size:
            try:
                written += os.write(self._descriptor, self.buffer[written:size])
            except OSError as error:
                if error.errno != errno.EINVAL or not self._is_direct():
                    raise
                # A file system that promises it and can't (some network ones), or a write that was cut short.
                self._direct(False)

    def sync(self) -> int:
        """Everything is on the disk; returns how many bytes the file has."""
        os.fsync(self._descriptor)
        return os.fstat(self._descriptor).st_size

    def _is_direct(self) -> bool:
        return bool(self._flags() & os.O_DIRECT)

    def _direct(self, wanted: bool) -> None:
        if wanted == self._is_direct():
            return
        flags = self._flags() | os.O_DIRECT if wanted else self._flags() & ~os.O_DIRECT
        try:
            fcntl.fcntl(self._descriptor, fcntl.F_SETFL, flags)
        except OSError:
            # tmpfs and the like: through the cache, then.
            pass

    def _flags(self) -> int:
        return fcntl.fcntl(self._descriptor, fcntl.F_GETFL)
