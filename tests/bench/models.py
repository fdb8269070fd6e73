"""Copies of a model: every way of doing it for one worker, and Tandem's to more of them."""

from __future__ import annotations

import hashlib
import os
import statistics
import time

from operations.node.copy.swarm import STREAMS
from tests.bench import copies
from tests.bench.copies import FOLDER, HUB, SSH, WORKERS, fabric, fetch_model
from tests.bench.runs import Runs, Way
from tests.lab import cluster, network
from tests.lab.settings import LabNode

SHARDS = 16
#: Of each rail, both ways, where the number of workers is compared; and the model for it.
RATE, RATE_GIB = "100mbit", 0.5
SUDO_RSYNC = f"--rsync-path='sudo rsync' -e '{SSH}'"


def to_one(head: LabNode, worker: LabNode, gib: float, rounds: int) -> Runs:
    """Every way of copying a model to one worker, round by round, so that the machine's moods reach all alike."""
    runs = Runs("a model to one worker", "cp on the same disk", copies.make_model(head, gib, SHARDS))
    source, target = f"{HUB}/{FOLDER}", f"spark@{fabric(worker)}:{HUB}/"
    peer = f"rsync {{}} {SUDO_RSYNC} {source} {target} >/dev/null"
    ways: dict[str, Way] = {
        "cp on the same disk": lambda: cluster.on(head, f"cp -r {source} {HUB}/copy"),
        "the link alone, into memory": lambda: copies.drain(head, worker, hashed=False),
        "the link and sha256, into memory": lambda: copies.drain(head, worker, hashed=True),
        "rsync -av (eugr)": lambda: cluster.on(head, peer.format("-av --mkpath --progress")),
        "rsync -a --size-only (sparkrun)": lambda: cluster.on(
            head, peer.format("-a --size-only --mkpath --partial --links")
        ),
        "Tandem": lambda: fetch_model(head, [worker]),
    }
    for _ in range(rounds):
        for name, way in ways.items():
            cluster.on(head, f"rm -rf {HUB}/copy")
            copies.clear([worker])
            runs.time(name, way)
    cluster.on(head, f"rm -rf {HUB}")
    return runs


def to_more(head: LabNode, workers: list[LabNode], rounds: int) -> Runs:
    """One, three and seven workers, with every rail held to RATE."""
    title = f"a model to more workers, rails of {RATE}"
    runs = Runs(title, f"Tandem, {WORKERS[0]} worker(s)", copies.make_model(head, RATE_GIB, SHARDS))
    try:
        for each in (head, *workers):
            network.hold_rails(each, RATE)
        for _ in range(rounds):
            for count in WORKERS:
                copies.clear(workers)
                runs.time(f"Tandem, {count} worker(s)", lambda count=count: fetch_model(head, workers[:count]))  # type: ignore[misc]
    finally:
        for each in (head, *workers):
            network.hold_rails(each, "")
    return runs


def arithmetic(runs: Runs, rate: float) -> str:
    """What Tandem's copy of a model costs in CPU, and what that is on a machine whose cores are not shared."""
    cpu, gigabytes = statistics.median(runs.cpu["Tandem"]), runs.size / 1e9
    hashing = runs.size / 1e6 / rate
    return (
        f"sha256 on one core here: {rate:.0f} MB/s. Tandem's copy of {gigabytes:.1f} GB takes {cpu:.1f} CPU s of both "
        f"nodes together, {hashing:.1f} of them for the hash; {os.cpu_count()} cores need at least "
        f"{cpu / (os.cpu_count() or 1):.1f} s for that.\nWith a core for each of the {STREAMS} streams, as a GB10 with "
        f"its 20 has them, the CPU ends at {STREAMS * gigabytes / cpu:.1f} GB/s: computed, not measured"
    )


def hash_rate() -> float:
    """MB/s of sha256 on one core."""
    piece, start = bytes(4 << 20), time.monotonic()
    hasher = hashlib.sha256()
    for _ in range(100):
        hasher.update(piece)
    return 100 * len(piece) / (time.monotonic() - start) / 1e6
