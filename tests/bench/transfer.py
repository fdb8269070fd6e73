"""Model and image copies on the lab, side by side in one run: Tandem's, `cp` on the same disk, and the peers' commands.

make bench-transfer [NODES=2] [ROUNDS=3] [GIB=2]
"""

from __future__ import annotations

import hashlib
import json
import os
import statistics
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table

from operations.remote import command, programs
from tests.e2e import cluster
from tests.lab import node
from tests.lab.settings import SSH_KEY, LabNode, known_nodes

ROUNDS = int(os.environ.get("ROUNDS", "3"))
GIB = float(os.environ.get("GIB", "2"))
SHARDS = 8
RESULT = cluster.ROOT / "bench-transfer.json"
HUB, FOLDER, REVISION = "/var/lib/tandem-bench/hub", "models--bench--model", "b" * 40
PORT = 26020
KEY = "/root/bench-key"
#: ssh from the head to a worker over the fabric, as the peers' tools use it.
SSH = f"ssh -i {KEY} -o StrictHostKeyChecking=no -o UserKnownHostsFile=/dev/null -o LogLevel=ERROR"
SUDO_RSYNC = "--rsync-path='sudo rsync'"


def main() -> int:
    """Measure, print a table with ratios, write bench-transfer.json."""
    nodes = known_nodes()
    head, workers = nodes[0], nodes[1:]
    if cluster.deploy(topology="solo").code != 0:
        print("the lab's own deploy fails; `make apply` says why", file=sys.stderr)
        return 1
    (head.root / KEY.lstrip("/")).write_text(SSH_KEY.read_text())
    (head.root / KEY.lstrip("/")).chmod(0o600)
    try:
        size = make_model(head)
        seconds = model_rounds(head, workers)
        image = cluster.on(head, "docker inspect --format '{{.Config.Image}}' tandem-engine").strip()
        seconds |= image_rounds(head, workers[0], image)
    finally:
        clean(nodes)
    medians = {name: statistics.median(times) for name, times in seconds.items()}
    report(medians, seconds, size, len(workers))
    return 0


def make_model(head: LabNode) -> int:
    """A model of random shards in the head's cache, laid out and named as the Hub's client does; its bytes."""
    place = head.root / HUB.lstrip("/") / FOLDER
    snapshot, blobs = place / "snapshots" / REVISION, place / "blobs"
    for folder in (snapshot, blobs):
        folder.mkdir(parents=True, exist_ok=True)
    total = 0
    for number in range(SHARDS):
        data = os.urandom(int(GIB * 2**30 / SHARDS))
        head_of_file = json.dumps({"t": {"dtype": "U8", "shape": [len(data)], "data_offsets": [0, len(data)]}}).encode()
        content = len(head_of_file).to_bytes(8, "little") + head_of_file + data
        total += add(content, blobs, snapshot / f"model-{number}.safetensors")
    add(b'{"model_type": "bench"}', blobs, snapshot / "config.json")
    os.sync()
    return total


def add(content: bytes, blobs: Path, link: Path) -> int:
    """A file of the cache; its size."""
    blob = blobs / hashlib.sha256(content).hexdigest()
    blob.write_bytes(content)
    link.unlink(missing_ok=True)
    link.symlink_to(f"../../blobs/{blob.name}")
    return len(content)


def timed(work: Callable[[], object]) -> float:
    """Seconds until the work is done and on the disk."""
    os.sync()
    start = time.monotonic()
    work()
    os.sync()
    return time.monotonic() - start


def model_rounds(head: LabNode, workers: list[LabNode]) -> dict[str, list[float]]:
    """Every way of copying the model, round by round, so that the machine's moods reach all alike."""
    first = workers[0]
    target = f"spark@{fabric(first)}:{HUB}/"
    source = f"{HUB}/{FOLDER}"
    ways: dict[str, Callable[[], object]] = {
        "cp on the same disk": lambda: cluster.on(head, f"cp -r {source} {HUB}/copy"),
        "rsync -av (eugr)": lambda: cluster.on(
            head, f"rsync -av --mkpath --progress {SUDO_RSYNC} -e '{SSH}' {source} {target} >/dev/null"
        ),
        "rsync -a --size-only (sparkrun)": lambda: cluster.on(
            head,
            f"rsync -a --size-only --mkpath --partial --links {SUDO_RSYNC} -e '{SSH}' {source} {target} >/dev/null",
        ),
        "Tandem, 1 worker": lambda: fetch(head, workers[:1], "model", folder=FOLDER, revision=REVISION),
    }
    if len(workers) > 1:
        name = f"Tandem, {len(workers)} workers"
        ways[name] = lambda: fetch(head, workers, "model", folder=FOLDER, revision=REVISION)
    seconds: dict[str, list[float]] = {name: [] for name in ways}
    for _ in range(ROUNDS):
        for name, way in ways.items():
            cluster.on(head, f"rm -rf {HUB}/copy")
            for worker in workers:
                cluster.on(worker, f"rm -rf {HUB} /var/lib/tandem/models/{FOLDER}; mkdir -p {HUB}")
            seconds[name].append(timed(way))
    return seconds


def image_rounds(head: LabNode, worker: LabNode, image: str) -> dict[str, list[float]]:
    """The engine's image to a worker that has nothing, and one layer of 100 MB to one that has the rest."""
    changed = "tandem-bench/changed:1"
    folder = head.root / "root/bench-image"
    folder.mkdir(exist_ok=True)
    (folder / "layer").write_bytes(os.urandom(100 << 20))
    (folder / "Dockerfile").write_text(f"FROM {image}\nCOPY layer /layer\n")
    cluster.on(head, f"docker build -q -t {changed} /root/bench-image >/dev/null")
    remote = f"{SSH} spark@{fabric(worker)} sudo docker load"

    def tandem(name: str) -> Callable[[], object]:
        return lambda: fetch(head, [worker], "image", image=name)

    def by_ssh(name: str) -> Callable[[], object]:
        return lambda: cluster.on(head, f"docker save {name} | {remote}")

    ways = {
        "image: docker save | ssh docker load": (image, by_ssh(image), False),
        "image: Tandem": (image, tandem(image), False),
        "layer of 100 MB: docker save | ssh docker load": (changed, by_ssh(changed), True),
        "layer of 100 MB: Tandem": (changed, tandem(changed), True),
    }
    seconds: dict[str, list[float]] = {name: [] for name in ways}
    for _ in range(ROUNDS):
        for name, (wanted, way, base_stays) in ways.items():
            others = cluster.on(worker, "docker images --quiet --no-trunc").split()
            kept = cluster.on(head, f"docker inspect --format '{{{{.Id}}}}' {image}").strip() if base_stays else ""
            for other in dict.fromkeys(others):
                if other != kept:
                    cluster.on(worker, f"docker rmi --force {other}", check=False)
            if base_stays and kept not in others:
                fetch(head, [worker], "image", image=image)
            seconds[name].append(timed(way))
            there = cluster.on(worker, f"docker inspect --format '{{{{.Id}}}}' {wanted}", check=False)
            assert there == cluster.on(head, f"docker inspect --format '{{{{.Id}}}}' {wanted}"), f"{name}: not there"
    return seconds


def fetch(head: LabNode, workers: list[LabNode], what: str, **arguments: Any) -> None:
    """Tandem's own programs, started as a deploy starts them; raises when one does not end well."""

    def one(worker: LabNode) -> None:
        port, store = PORT + worker.index, {"store": HUB}
        rails = [fabric(head), fabric(head, 1)]
        peers = [fabric(worker), fabric(worker, 1)]
        shared = {"addresses": rails, "port": port, "peers": peers, **arguments, **store}
        with tethered(head, "share", **shared) as server:
            assert json.loads(server.readline())["ready"]
            wanted = {"what": what, "addresses": rails, "port": port, **arguments, **store}
            with tethered(worker, "fetch", **wanted) as client:
                last = [line for line in client if line.strip()][-1]
                assert json.loads(last).get("done"), last

    with ThreadPoolExecutor(len(workers)) as pool:
        list(pool.map(one, workers))


@contextmanager
def tethered(where: LabNode, program: str, **arguments: Any) -> Iterator[Any]:
    """A node program over ssh that lives on beats; gives its standard output."""
    argv = [*node.ssh_argv(where), f"sudo -n {command(program, arguments).get_raw_value()}"]
    with subprocess.Popen(argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdin is not None
        process.stdin.write(str(programs()))
        process.stdin.flush()
        over = threading.Event()

        def beat() -> None:
            while not over.wait(5):
                try:
                    process.stdin.write("\n")  # type: ignore[union-attr]
                    process.stdin.flush()  # type: ignore[union-attr]
                except (OSError, ValueError):
                    return

        threading.Thread(target=beat, daemon=True).start()
        try:
            yield process.stdout
        finally:
            over.set()
            process.stdin.close()


def fabric(of: LabNode, rail: int = 0) -> str:
    """A node's address on a rail, as group_data/all.py gives them."""
    return f"192.168.{177 + rail}.{11 + of.index}"


def clean(nodes: list[LabNode]) -> None:
    """Take away what the bench put on the nodes."""
    for each in nodes:
        cluster.on(each, f"rm -rf /var/lib/tandem-bench /root/bench-image {KEY} /var/lib/tandem/models/{FOLDER}")
        cluster.on(each, "docker rmi tandem-bench/changed:1", check=False)


def report(medians: dict[str, float], seconds: dict[str, list[float]], size: int, workers: int) -> None:
    """The table and the file."""
    floor, eugr = medians["cp on the same disk"], medians["rsync -av (eugr)"]
    table = Table("", "median s", "min", "max", "MB/s", "ratio", box=None)
    for name, median in medians.items():
        rate, ratio = f"{size / median / 1e6:.0f}", f"{eugr / median:.2f} of eugr's, {floor / median:.2f} of cp"
        if "image" in name or "layer" in name:
            base = medians[f"{name.partition(':')[0]}: docker save | ssh docker load"]
            rate, ratio = "", f"{base / median:.2f} of docker save | ssh"
        times = seconds[name]
        table.add_row(name, f"{median:.2f}", f"{min(times):.2f}", f"{max(times):.2f}", rate, ratio)
    Console(width=None if sys.stdout.isatty() else 140).print(table)
    print(f"a model of {size / 1e9:.2f} GB in {SHARDS} shards, {workers} worker(s), {ROUNDS} rounds, sync included")
    RESULT.write_text(json.dumps({"bytes": size, "seconds": seconds, "median": medians}, indent=1) + "\n")


if __name__ == "__main__":
    sys.exit(main())
