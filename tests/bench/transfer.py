"""Model and image copies on the lab, side by side in one run: Tandem's, `cp` on the same disk, and the peers' commands.

    make bench-transfer [ROUNDS=3] [GIB=2]

Boots eight nodes. All share two cores and one disk, so one worker is measured at full speed, and what happens with more
on links that are held to RATE: there a link is the limit, as it is for a head that feeds seven workers.
"""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import statistics
import sys
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path

from rich.console import Console
from rich.table import Table

from operations.node.swarm import STREAMS
from tests.bench import copies
from tests.bench.copies import FOLDER, HUB, fabric, fetch_image, fetch_model
from tests.e2e import cluster
from tests.lab import cgroup, network
from tests.lab.settings import SSH_KEY, LabNode, known_nodes

ROUNDS = int(os.environ.get("ROUNDS", "3"))
GIB = float(os.environ.get("GIB", "2"))
SHARDS = 16
#: Of each rail, both ways, where the number of workers is compared; and the model for it.
RATE, RATE_GIB = "100mbit", 0.5
WORKERS = (1, 3, 7)
#: Of a core, for each worker alone, where images to more workers are compared: seven leave the head half a core.
CORES = 0.2
#: Bytes of the image that is copied: the lab's engine, and random bytes up to this.
IMAGE = 4 * 10**9
RESULT = cluster.ROOT / "bench-transfer.json"
KEY = "/root/bench-key"
ARCHIVE = "/root/bench-layer.tar"
#: ssh from the head to a worker over the fabric, as the peers' tools use it.
SSH = f"ssh -i {KEY} -o StrictHostKeyChecking=no -o UserKnownHostsFile=/dev/null -o LogLevel=ERROR"
SUDO_RSYNC = f"--rsync-path='sudo rsync' -e '{SSH}'"

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


def main() -> int:
    """Measure, print tables with ratios, write bench-transfer.json."""
    nodes = known_nodes()
    head, workers = nodes[0], nodes[1:]
    if len(workers) < max(WORKERS):
        print(f"the bench needs {max(WORKERS) + 1} nodes: `make bench-transfer` boots them", file=sys.stderr)
        return 1
    # Fabric and images, as a deploy leaves them; nothing shall run beside the copies.
    if cluster.deploy(topology="solo").code or cluster.deploy(file="operations/verbs/down.py").code:
        print("the lab's own deploy fails; `make apply INVENTORY=tests/lab/inventory.py` says why", file=sys.stderr)
        return 1
    (head.root / KEY.lstrip("/")).write_text(SSH_KEY.read_text())
    (head.root / KEY.lstrip("/")).chmod(0o600)
    try:
        runs = [one_worker(head, workers[0]), more_workers(head, workers), *images(head, workers[0])]
        runs += image_to_more(head, workers)
    finally:
        clean(nodes)
    for each in runs:
        report(each)
    rate = hash_rate()
    print(arithmetic(runs[0], rate))
    RESULT.write_text(json.dumps({"rounds": ROUNDS, "sha256": rate, "runs": [vars(each) for each in runs]}, indent=1))
    return 0


def one_worker(head: LabNode, worker: LabNode) -> Runs:
    """Every way of copying a model to one worker, round by round, so that the machine's moods reach all alike."""
    runs = Runs("a model to one worker", "cp on the same disk", copies.make_model(head, GIB, SHARDS))
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
    for _ in range(ROUNDS):
        for name, way in ways.items():
            cluster.on(head, f"rm -rf {HUB}/copy")
            copies.clear([worker])
            runs.time(name, way)
    cluster.on(head, f"rm -rf {HUB}")
    return runs


def more_workers(head: LabNode, workers: list[LabNode]) -> Runs:
    """One, three and seven workers, with every rail held to RATE."""
    title = f"a model to more workers, rails of {RATE}"
    runs = Runs(title, f"Tandem, {WORKERS[0]} worker(s)", copies.make_model(head, RATE_GIB, SHARDS))
    try:
        for each in (head, *workers):
            network.hold_rails(each, RATE)
        for _ in range(ROUNDS):
            for count in WORKERS:
                copies.clear(workers)
                runs.time(f"Tandem, {count} worker(s)", lambda count=count: fetch_model(head, workers[:count]))  # type: ignore[misc]
    finally:
        for each in (head, *workers):
            network.hold_rails(each, "")
    return runs


def images(head: LabNode, worker: LabNode) -> list[Runs]:
    """The engine's image to a worker that has nothing, and one layer of 100 MB to one that has the rest."""
    image, changed = "tandem-bench/image:1", "tandem-bench/changed:1"
    engine = cluster.on(head, "docker images --format '{{.Repository}}:{{.Tag}}' tandem/engine").split()[0]
    size = int(cluster.on(head, f"docker inspect --format '{{{{.Size}}}}' {engine}"))
    _layer_onto(head, engine, image, IMAGE - size)
    _layer_onto(head, image, changed, 100 << 20)
    plain = "docker save | ssh docker load"
    found = []
    for title, wanted, base in (("an image", image, ""), ("one layer of 100 MB of it", changed, image)):
        size = int(cluster.on(head, f"docker inspect --format '{{{{.Size}}}}' {wanted}"))
        runs = Runs(title, plain, size)
        ways: dict[str, Way] = {
            plain: lambda wanted=wanted: cluster.on(  # type: ignore[misc]
                head, f"docker save {wanted} | {SSH} spark@{fabric(worker)} sudo docker load"
            ),
            "Tandem": lambda wanted=wanted: fetch_image(head, [worker], wanted),  # type: ignore[misc]
        }
        for _ in range(ROUNDS):
            for name, way in ways.items():
                _leave_only(head, worker, base)
                runs.time(name, way)
                assert _identity(worker, wanted) == _identity(head, wanted), f"{name}: not there"
        found.append(runs)
    return found


def _layer_onto(head: LabNode, base: str, name: str, size: int) -> None:
    """An image with one more layer, of random bytes."""
    folder = head.root / "root/bench-image"
    folder.mkdir(exist_ok=True)
    with (folder / "layer").open("wb") as layer:
        for start in range(0, size, 64 << 20):
            layer.write(os.urandom(min(64 << 20, size - start)))
    (folder / "Dockerfile").write_text(f"FROM {base}\nCOPY layer /layer-{size}\n")
    cluster.on(head, f"docker build -q -t {name} /root/bench-image >/dev/null")
    shutil.rmtree(folder)


def image_to_more(head: LabNode, workers: list[LabNode]) -> list[Runs]:
    """One layer of 100 MB to one, three and seven workers: each takes it from the head, which has link to spare.

    What limits it is each worker's own `docker load`; here all of them share two cores. So it is timed twice: as it
    is, and with CORES of a core for each worker, which the others can't take, as a node has its own. `docker load` of
    the same archive from a file that is there already shows what there is to gain.
    """
    image = "tandem-bench/layer:1"
    cluster.on(head, f"head -c 104857600 /dev/urandom >/root/layer; tar -C /root -c layer | docker import - {image}")
    cluster.on(head, f"docker save --output {ARCHIVE} {image}")
    for each in workers:
        shutil.copy(head.root / ARCHIVE.lstrip("/"), each.root / ARCHIVE.lstrip("/"))
    shared = Runs("an image of 100 MB to more workers, two cores for all", f"{WORKERS[0]} worker(s)", 100 << 20)
    own = Runs(f"the same, {CORES:g} of a core for each", f"{WORKERS[0]} worker(s)", 100 << 20)
    for _ in range(ROUNDS):
        for runs, cores in ((shared, 0.0), (own, CORES)):
            for count in WORKERS:
                _image_to_some(runs, head, workers, count, image, cores)
    return [shared, own]


def _image_to_some(runs: Runs, head: LabNode, workers: list[LabNode], count: int, image: str, cores: float) -> None:
    some = workers[:count]
    ways: dict[str, Way] = {
        f"{count} x `docker load` alone": lambda: _load_all(some),
        f"{count} worker(s)": lambda: fetch_image(head, some, image),
    }
    for name, way in ways.items():
        for each in workers:
            cluster.on(each, f"docker rmi --force {image}", check=False)
        with cgroup.held(workers, cores):
            runs.time(name, way)
        assert {_identity(each, image) for each in some} == {_identity(head, image)}


def _load_all(workers: list[LabNode]) -> None:
    with ThreadPoolExecutor(len(workers)) as pool:
        list(pool.map(lambda each: cluster.on(each, f"docker load --quiet --input {ARCHIVE}"), workers))


def _identity(where: LabNode, image: str) -> str:
    return cluster.on(where, f"docker inspect --format '{{{{.Id}}}}' {image}", check=False).strip()


def _leave_only(head: LabNode, worker: LabNode, base: str) -> None:
    """The worker has the base image and no other; none at all without one."""
    kept = _identity(head, base) if base else ""
    for other in dict.fromkeys(cluster.on(worker, "docker images --quiet --no-trunc").split()):
        if other != kept:
            cluster.on(worker, f"docker rmi --force {other}", check=False)
    if base and _identity(worker, base) != kept:
        fetch_image(head, [worker], base)


def clean(nodes: list[LabNode]) -> None:
    """Take away what the bench put on the nodes."""
    for each in nodes:
        left = f"/var/lib/tandem-bench /root/bench-image /root/layer {ARCHIVE} {KEY} /var/lib/tandem/models/{FOLDER}"
        cluster.on(each, f"rm -rf {left}; docker rmi $(docker images --quiet 'tandem-bench/*')", check=False)


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
    print(f"{runs.size / 1e9:.2f} GB, {ROUNDS} rounds, sync included\n")


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


def _busy() -> float:
    """CPU seconds that this machine has spent so far, in anything but waiting."""
    user, nice, system, _, _, irq, softirq, *_ = map(int, Path("/proc/stat").read_text().split("\n")[0].split()[1:])
    return (user + nice + system + irq + softirq) / os.sysconf("SC_CLK_TCK")


if __name__ == "__main__":
    sys.exit(main())
