"""Tandem's own copy programs on the lab, started as a deploy starts them, and the model that the bench copies."""

from __future__ import annotations

import hashlib
import json
import os
import shlex
import subprocess
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import IO, Any

from operations.node.copy.swarm import STREAMS
from operations.runner.remote import command, programs
from tests.lab import cluster, node
from tests.lab.settings import LabNode

HUB, FOLDER, REVISION = "/var/lib/tandem-bench/hub", "models--bench--model", "b" * 40
PORT = 26020
WORKERS = (1, 3, 7)
#: The key with which the head reaches workers over the fabric, as the peers' tools do.
KEY = "/root/bench-key"
SSH = f"ssh -i {KEY} -o StrictHostKeyChecking=no -o UserKnownHostsFile=/dev/null -o LogLevel=ERROR"


def make_model(head: LabNode, gib: float, shards: int) -> int:
    """A model of random shards in the head's cache, laid out and named as the Hub's client does; its bytes."""
    place = head.root / HUB.lstrip("/") / FOLDER
    snapshot, blobs = place / "snapshots" / REVISION, place / "blobs"
    for folder in (snapshot, blobs):
        folder.mkdir(parents=True, exist_ok=True)
    total = _add(b'{"model_type": "bench"}', blobs, snapshot / "config.json")
    for number in range(shards):
        data = os.urandom(int(gib * 2**30 / shards))
        header = json.dumps({"t": {"dtype": "U8", "shape": [len(data)], "data_offsets": [0, len(data)]}}).encode()
        total += _add(
            len(header).to_bytes(8, "little") + header + data, blobs, snapshot / f"model-{number}.safetensors"
        )
    os.sync()
    return total


def _add(content: bytes, blobs: Path, link: Path) -> int:
    blob = blobs / hashlib.sha256(content).hexdigest()
    blob.write_bytes(content)
    link.unlink(missing_ok=True)
    link.symlink_to(f"../../blobs/{blob.name}")
    return len(content)


def clear(workers: list[LabNode]) -> None:
    """The workers have nothing of the model, and an empty place for it."""
    for worker in workers:
        cluster.on(worker, f"rm -rf {HUB} /var/lib/tandem/models/{FOLDER}; mkdir -p {HUB}")


def fabric(of: LabNode, rail: int = 0) -> str:
    """A node's address on a rail, as group_data/all.py gives them."""
    return f"192.168.{177 + rail}.{11 + of.index}"


def fetch_model(head: LabNode, workers: list[LabNode]) -> None:
    """The model from the head to all workers at once, which hand it on to each other."""
    _fetch(head, workers, "model", folder=FOLDER, revision=REVISION)


def fetch_image(head: LabNode, workers: list[LabNode], image: str) -> None:
    """An image from the head to all workers at once."""
    _fetch(head, workers, "image", image=image)


#: Every file of the model into memory, in as many streams as a copy has; with `hash` also through sha256.
DRAIN = """
import collections, hashlib, http.client, json, sys, threading
port, streams, hashed, *rails = int(sys.argv[1]), int(sys.argv[2]), sys.argv[3] == "hash", *sys.argv[4:]
def get(path, rail):
    connection = http.client.HTTPConnection(rails[rail % len(rails)], port)
    connection.request("GET", path)
    return connection.getresponse()
names = collections.deque(json.load(get("/model", 0)))
def stream(rail):
    room, hasher = memoryview(bytearray(4 << 20)), hashlib.sha256()
    while True:
        try:
            body = get(f"/file/{names.popleft()}", rail)
        except IndexError:
            return
        while size := body.readinto(room):
            if hashed:
                hasher.update(room[:size])
threads = [threading.Thread(target=stream, args=(number,)) for number in range(streams)]
for each in threads:
    each.start()
for each in threads:
    each.join()
"""


def drain(head: LabNode, worker: LabNode, *, hashed: bool) -> None:
    """The model over the rails into the worker's memory, and to no disk: what the lab's links and cores can do."""
    rails = [[fabric(of), fabric(of, 1)] for of in (head, worker)]
    wanted = {"addresses": rails[0], "port": PORT, "store": HUB, "folder": FOLDER, "revision": REVISION}
    with _tethered(head, "copy.share", peers=rails[1], **wanted) as server:
        assert json.loads(server.readline())["ready"]
        words = [str(PORT), str(STREAMS), "hash" if hashed else "plain", *rails[0]]
        cluster.on(worker, f"python3 -c {shlex.quote(DRAIN)} {' '.join(words)}")


def _fetch(head: LabNode, workers: list[LabNode], what: str, **arguments: Any) -> None:
    """Raises when one of them does not end well."""
    all_have_it = threading.Barrier(len(workers))

    def rails(of: LabNode) -> list[str]:
        return [fabric(of), fabric(of, 1)]

    def served_at(worker: LabNode) -> dict[str, Any]:
        return {"addresses": rails(worker), "port": PORT + worker.index, "part": workers.index(worker)}

    def one(worker: LabNode) -> None:
        wanted = {"addresses": rails(head), "port": PORT + worker.index, "store": HUB, **arguments}
        swarm = {
            "here": served_at(worker),
            "peers": [served_at(each) for each in workers if each is not worker],
        }
        with _tethered(head, "copy.share", peers=rails(worker), **wanted) as server:
            assert json.loads(server.readline())["ready"]
            with _tethered(worker, "copy.fetch", what=what, **wanted, **(swarm if what == "model" else {})) as client:
                line: dict[str, Any] = {}
                while not ("done" in line or "error" in line):
                    line = json.loads(client.readline())
                assert "done" in line, line
                all_have_it.wait(timeout=300)

    with ThreadPoolExecutor(len(workers)) as pool:
        list(pool.map(one, workers))


@contextmanager
def _tethered(where: LabNode, program: str, **arguments: Any) -> Iterator[IO[str]]:
    """A node program over ssh that lives on beats; gives its standard output."""
    argv = [*node.ssh_argv(where), f"sudo -n {command(program, arguments).get_raw_value()}"]
    with subprocess.Popen(argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdin is not None and process.stdout is not None
        held = process.stdin
        held.write(str(programs()))
        held.flush()
        over = threading.Event()

        def beat() -> None:
            # The program may have ended by itself.
            with suppress(BrokenPipeError):
                while not over.wait(5):
                    held.write("\n")
                    held.flush()

        beats = threading.Thread(target=beat)
        beats.start()
        try:
            yield process.stdout
        finally:
            over.set()
            beats.join()
            with suppress(BrokenPipeError):
                held.close()
