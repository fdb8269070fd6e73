"""Copies of images: a whole one, a changed layer, and one layer to more workers."""

from __future__ import annotations

import os
import shutil
from concurrent.futures import ThreadPoolExecutor

from tests.bench.copies import SSH, WORKERS, fabric, fetch_image
from tests.bench.runs import Runs, Way
from tests.lab import cgroup, cluster
from tests.lab.settings import LabNode

#: Of a core, for each worker alone, where images to more workers are compared: seven leave the head half a core.
CORES = 0.2
#: Bytes of the image that is copied: the lab's engine, and random bytes up to this.
IMAGE = 4 * 10**9
ARCHIVE = "/root/bench-layer.tar"


def to_one(head: LabNode, worker: LabNode, rounds: int) -> list[Runs]:
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
        for _ in range(rounds):
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


def to_more(head: LabNode, workers: list[LabNode], rounds: int) -> list[Runs]:
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
    for _ in range(rounds):
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
