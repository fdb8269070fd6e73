"""A file that is not whole yet, written around the page cache.

On unified memory the page cache is memory that an engine misses; and the copy into it costs more than the hash
(measured for 2 GiB on two cores: 1.0 to 2.2 s of CPU through the cache, 0.2 s around it). A write around it waits for
the disk: it is done behind, while the next block is received and hashed (1.2 times as fast there).
"""

from __future__ import annotations

import errno
import fcntl
import mmap
import os
from collections import deque
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from types import TracebackType

#: Bytes that are received, hashed and written at a time.
BLOCK = 4 << 20
#: Blocks in memory: one is filled while the others are written.
BLOCKS = 3
#: What O_DIRECT wants offsets and lengths to be multiples of, on any disk.
ALIGNMENT = 4096


class Part:
    """Use as a context: goes on behind the whole blocks that an earlier try has left."""

    def __init__(self, path: Path, size: int, owner: tuple[int, int]) -> None:
        self._path = path
        there = path.stat().st_size if path.exists() else 0
        #: Bytes that are there already; one that is longer than the file shall be is begun anew.
        self.start = 0 if there > size else there if there == size else there - there % ALIGNMENT
        self._descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
        os.fchown(self._descriptor, *owner)
        os.ftruncate(self._descriptor, self.start)
        # A mapping of its own begins where a page does, as O_DIRECT wants it.
        self._free = deque(memoryview(mmap.mmap(-1, BLOCK)) for _ in range(BLOCKS))
        self._writer = ThreadPoolExecutor(1)
        self._writing: deque[Future[memoryview]] = deque()

    def __enter__(self) -> Part:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._writer.shutdown(cancel_futures=True)
        os.close(self._descriptor)

    def beginning(self) -> Iterator[memoryview]:
        """What an earlier try has left."""
        os.lseek(self._descriptor, 0, os.SEEK_SET)
        left, block = self.start, self.block()
        while left and (size := os.readv(self._descriptor, [block[: min(left, BLOCK)]])):
            left -= size
            yield block[:size]

    def block(self) -> memoryview:
        """Where the next bytes are to be put; it is free until it is given to `write`."""
        return self._free[0]

    def write(self, size: int) -> None:
        """So many bytes of the block, behind what is there. Raises OSError, also for what was written earlier."""
        self._writing.append(self._writer.submit(self._put, self._free.popleft(), size))
        if not self._free:
            self._written()

    def _written(self) -> None:
        """The oldest of the blocks under way is on the disk."""
        self._free.append(self._writing.popleft().result())

    def _put(self, block: memoryview, size: int) -> memoryview:
        self._direct(size % ALIGNMENT == 0)
        written = 0
        while written < size:
            try:
                written += os.write(self._descriptor, block[written:size])
            except OSError as error:
                if error.errno != errno.EINVAL or not self._is_direct():
                    raise
                # A file system that promises it and can't (some network ones), or a write that was cut short.
                self._direct(False)
        return block

    def sync(self) -> int:
        """Everything is on the disk; returns how many bytes the file has. Raises OSError as `write` does."""
        while self._writing:
            self._written()
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
