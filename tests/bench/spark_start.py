"""What a start of Nemotron-3-Super would take on two Sparks, by figures from elsewhere. A computed range, and never a
measurement: `python -m tests.bench.spark_start` prints the table that docs/starts.md has.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from operations.plan.recipes.formats import load_recipe

RECIPE = "nemotron-3-super-nvfp4-marlin"


@dataclass(frozen=True)
class Range:
    """From `low` to `high`: seconds, or times of something."""

    low: float
    high: float

    def __add__(self, other: Range) -> Range:
        return Range(self.low + other.low, self.high + other.high)

    def __mul__(self, other: Range) -> Range:
        return Range(self.low * other.low, self.high * other.high)

    def __str__(self) -> str:
        return f"{_rounded(self.low)} to {_rounded(self.high)} s"


#: Seconds for a GiB. The disk: others read 70 GiB in 15 to 25 s. Mapped pages: others took 52 s for 22.5 GiB at best,
#: and 8 minutes for the whole start of 69.5 GiB.
DISK, MAPPED = Range(15 / 70, 25 / 70), Range(52 / 22.5, 460 / 69.5)
#: A loader's time over the disk's own: on the H100 0.83 and 0.84 cold; to be careful, up to half as much again.
LOADER = Range(1.0, 1.5)
#: A Spark's processor against that host's, which has sixteen x86 cores, and its GPU against the H100 where kernels are
#: made and tried. Nobody has measured either: a wide guess.
PROCESSOR, KERNELS = Range(0.7, 1.5), Range(1.0, 3.0)
#: Measured on the H100, in seconds: imports with nothing cached and later; what is compiled, captured and warmed up at
#: a first start, and at later ones; the server.
IMPORTS = {True: Range(67, 76), False: Range(37, 48)}
MADE = {True: Range(41, 41), False: Range(7, 26)}
SERVER = Range(0.7, 1.2)
#: Ranks that meet, and connect.
MEETING = Range(3, 15)
#: What a rank of two touches of the files: half of them where all is cut, all of it where nothing is.
RANK_READS = Range(0.5, 1.0)


def start(gib: float, *, cluster: bool, mapped: bool, first: bool) -> Range:
    """Seconds of a start of `gib` of weights. `mapped`: the engine's own way, by mapped pages; else by a loader that
    reads at the disk's speed.
    """
    weights = Range(gib, gib) * (MAPPED if mapped else DISK * LOADER)
    whole = IMPORTS[first] * PROCESSOR + MADE[first] * KERNELS + SERVER
    return whole + (weights * RANK_READS + MEETING if cluster else weights)


def lines() -> Iterator[str]:
    """The table, in Markdown."""
    gib = load_recipe(RECIPE).weights_gib
    assert gib
    yield f"| {gib:g} GiB | a first start | a later one |"
    yield "|---|---|---|"
    for name, cluster, mapped in (
        ("solo, mapped pages (`engine`)", False, True),
        ("solo, at the disk's speed (`auto` with a loader)", False, False),
        ("cluster, mapped pages (what a cluster keeps)", True, True),
    ):
        first, later = (start(gib, cluster=cluster, mapped=mapped, first=each) for each in (True, False))
        yield f"| {name} | {first} | {later} |"


def _rounded(seconds: float) -> int:
    # More digits would say more than is known.
    return round(seconds / 10) * 10


if __name__ == "__main__":
    print("\n".join(lines()))
