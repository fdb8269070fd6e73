"""How fast a disk reads what an engine loads, around the page cache."""

from __future__ import annotations

import mmap
import os
import stat
import threading
import time
from pathlib import Path

from operations.wire.doctor import Reading

BLOCK = 4 << 20
#: Whichever comes first ends it.
BYTES, SECONDS = 1 << 30, 2.0
#: At once: an NVMe that is asked for one block at a time is not at its speed.
READERS = 4
#: Bytes below which a file says nothing of a disk.
LEAST = 64 << 20


def main(store: Path) -> Reading:
    """How fast the largest model file of a store is read from its disk, which takes SECONDS at the most.

    Returns `gb_s` (10^9 bytes a second), the `file` and the `disk` under it. {}: no file has LEAST bytes, or the page
    cache can't be passed by.
    """
    files = [path for path in store.glob("models--*/blobs/*") if path.is_file()]
    largest = max(files, key=lambda path: path.stat().st_size, default=None)
    if largest is None or largest.stat().st_size < LEAST:
        return {}
    speed = gb_s(largest)
    return {"gb_s": speed, "file": str(largest), "disk": disk_of(largest)} if speed else {}


def gb_s(path: Path) -> float:
    """10^9 bytes a second; 0: can't be read around the cache."""
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_DIRECT | os.O_CLOEXEC)
    except OSError:
        return 0.0
    try:
        blocks = min(_size(descriptor), BYTES) // BLOCK
        done = [0] * READERS
        begun = time.monotonic()

        def read(reader: int) -> None:
            buffer = memoryview(mmap.mmap(-1, BLOCK))
            for number in range(reader, blocks, READERS):
                if time.monotonic() - begun > SECONDS:
                    return
                try:
                    done[reader] += os.preadv(descriptor, [buffer], number * BLOCK)
                except OSError:
                    return

        threads = [threading.Thread(target=read, args=(reader,)) for reader in range(READERS)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        return sum(done) / (time.monotonic() - begun) / 1e9
    finally:
        os.close(descriptor)


def disk_of(path: Path) -> str:
    """The name of the disk under a file (nvme0n1); empty for what is on none."""
    device = os.stat(path).st_dev
    block = Path(os.path.realpath(f"/sys/dev/block/{os.major(device)}:{os.minor(device)}"))
    if not block.exists():
        return ""
    return block.parent.name if (block / "partition").exists() else block.name


def _size(descriptor: int) -> int:
    state = os.fstat(descriptor)
    return os.lseek(descriptor, 0, os.SEEK_END) if stat.S_ISBLK(state.st_mode) else state.st_size
