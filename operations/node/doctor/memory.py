"""Memory, swap and the page cache."""

from __future__ import annotations

import re
from pathlib import Path

from operations.node.commands import read
from operations.wire.doctor import MemoryGib

PROC = Path("/proc")
KIB_OF_GIB = 1 << 20


def main() -> MemoryGib:
    """`total_gib`, `available_gib`, `cache_gib` (the kernel could give it back); `swaps`: [{name, gib, used_gib}]."""
    kib = {name: int(value) for name, value in re.findall(r"^(\w+):\s+(\d+) kB", read(PROC / "meminfo"), re.MULTILINE)}
    swaps = [line.split() for line in read(PROC / "swaps").splitlines()[1:]]
    return {
        "total_gib": kib["MemTotal"] / KIB_OF_GIB,
        "available_gib": kib["MemAvailable"] / KIB_OF_GIB,
        # Shared memory is counted as cache, and is somebody's.
        "cache_gib": (kib["Cached"] + kib.get("Buffers", 0) - kib.get("Shmem", 0)) / KIB_OF_GIB,
        "swaps": [
            {"name": name, "gib": int(size) / KIB_OF_GIB, "used_gib": int(used) / KIB_OF_GIB}
            for name, _kind, size, used, *_ in swaps
        ],
    }
