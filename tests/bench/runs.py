"""What a bench has measured, and the table of it."""

from __future__ import annotations

import os
import statistics
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

from rich.console import Console
from rich.table import Table

Way = Callable[[], object]


@dataclass
class Runs:
    """What was measured of ways that do the same: seconds and CPU seconds of the whole machine, round by round."""

    title: str
    #: What the others are held against.
    against: str
    size: int = 0
    seconds: dict[str, list[float]] = field(default_factory=dict)
    cpu: dict[str, list[float]] = field(default_factory=dict)

    def time(self, name: str, way: Way) -> None:
        """Until it is done and on the disk."""
        os.sync()
        busy, start = _busy(), time.monotonic()
        way()
        os.sync()
        self.seconds.setdefault(name, []).append(time.monotonic() - start)
        self.cpu.setdefault(name, []).append(_busy() - busy)
        print(f"  {self.title}: {name}: {self.seconds[name][-1]:.2f} s", file=sys.stderr, flush=True)


def report(runs: Runs) -> None:
    """A table: medians, spread, rate, CPU, and how many times as fast as what it is held against."""
    medians = {name: statistics.median(times) for name, times in runs.seconds.items()}
    table = Table(runs.title, "median s", "min", "max", "MB/s", "CPU s", f"x {runs.against}", box=None)
    for name, median in medians.items():
        times, cpu = runs.seconds[name], statistics.median(runs.cpu[name])
        ratio = f"{medians[runs.against] / median:.2f}"
        rate = f"{runs.size / median / 1e6:.0f}"
        table.add_row(name, f"{median:.2f}", f"{min(times):.2f}", f"{max(times):.2f}", rate, f"{cpu:.1f}", ratio)
    Console(width=None if sys.stdout.isatty() else 140).print(table)
    print(f"{runs.size / 1e9:.2f} GB, {len(times)} rounds, sync included\n")


def _busy() -> float:
    """CPU seconds that this machine has spent so far, in anything but waiting."""
    user, nice, system, _, _, irq, softirq, *_ = map(int, Path("/proc/stat").read_text().split("\n")[0].split()[1:])
    return (user + nice + system + irq + softirq) / os.sysconf("SC_CLK_TCK")
