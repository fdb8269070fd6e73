"""Fetch an image, a model or kernels from another node's share, proving what arrives before it gets its name."""

from __future__ import annotations

import json
import subprocess
import threading
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from http.client import HTTPException
from typing import Any
from urllib.parse import quote

from operations.node import beats
from operations.node.commands import docker_root
from operations.node.copy import share
from operations.node.copy.install import Installer, filled
from operations.node.copy.kernels import receive
from operations.node.copy.meter import Meter
from operations.node.copy.source import Busy, Source
from operations.node.copy.swarm import STREAMS, UPLOADS, Swarm, Task
from operations.node.disk_space import fits
from operations.node.image import layers
from operations.wire.model import Copied, ModelFile, Worker

CHUNK = 1 << 20


def main(what: str, addresses: list[str], port: int, store: str, **arguments: Any) -> Copied:
    """`what` is `image` (image), `model` (see `_model`) or `kernels` (see receive); the last line has `done` or
    `error`.
    """
    beats.watch()
    head = Source(addresses, port)
    try:
        if what == "kernels":
            return receive(head, arguments["kernels"], arguments["made"])
        return _image(head) if what == "image" else _model(head, store, **arguments)
    except (OSError, HTTPException, ValueError) as error:
        return {"error": str(error) or type(error).__name__}


def _image(head: Source) -> Copied:
    with head.get("/image", told={"have": layers.present()}) as body:
        # Docker unpacks the archive under its root before it takes the layers out.
        fits(docker_root(), 2 * (body.length or 0))
        meter = Meter(body.length or 0)
        with subprocess.Popen(
            ["docker", "load", "--quiet"], stdin=subprocess.PIPE, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE
        ) as load:
            assert load.stdin is not None and load.stderr is not None
            try:
                while chunk := _timed(meter, "link", lambda: body.read(CHUNK)):
                    with meter.waiting("docker load"):
                        load.stdin.write(chunk)
                    meter.count(len(chunk))
            except BrokenPipeError:
                pass
            load.stdin.close()
            words = load.stderr.read().decode().strip()
    if load.returncode != 0:
        return {"error": f"docker load: {words}"}
    return {"done": True, **meter.state()}


def _model(
    head: Source,
    store: str,
    folder: str,
    revision: str,
    kind: str = "model",
    only: Sequence[str] = (),
    here: Worker | None = None,
    peers: list[Worker] | None = None,
) -> Copied:
    """`only`: patterns of the files that are meant; none: all. `here`: addresses and port to serve the other workers
    on, and `part`, this worker's number; `peers`: the same of each other worker.
    """
    with head.get("/model") as body:
        files: dict[str, ModelFile] = json.load(body)
    installer = Installer(store, folder, revision, kind, only)
    wanted = installer.missing(files)
    meter = installer.expect(files[name] for name in wanted)
    largest_first = sorted(files, key=lambda name: (-files[name]["size"], name))
    blobs = {name: files[name]["blob"] for name in largest_first}
    others = [Source(**each, of=share.of(installer.snapshot, only)) for each in peers or ()]
    swarm = Swarm(head, others, here["part"] if here else 0, blobs, [name for name in largest_first if name in wanted])
    if here and peers:
        allowed = [address for each in peers for address in each["addresses"]]
        uploads = threading.Semaphore(UPLOADS)
        shared = share.Shared(
            allowed, installer.snapshot, only=only, have=swarm.have, coming=swarm.coming, uploads=uploads
        )
        # Where another program has the port, the others take from the head what they would have had from here.
        with suppress(OSError):
            share.serve(here["addresses"], here["port"], shared)

    def stream(own_first: bool) -> None:
        while task := swarm.take(own_first):
            try:
                installer.add(task.name, files[task.name], _over(task, meter))
                swarm.landed(task)
            except Busy:
                swarm.put_back(task)
            except OSError:
                if not swarm.failed(task):
                    raise

    with ThreadPoolExecutor(STREAMS) as pool:
        # Half of the streams are for what the head has, the others for what the workers have.
        for each in [pool.submit(stream, number % 2 == 0) for number in range(STREAMS)]:
            each.result()
    installer.finish(files)
    done: Copied = {"done": True, **meter.state()}
    if here and peers:
        # The others may still take from here; the deploy lets go when all have everything.
        print(json.dumps(done), flush=True)
        beats.wait()
    return done


def _over(task: Task, meter: Meter) -> Any:
    def read(start: int, buffer: memoryview) -> Iterator[int]:
        with task.source.get(f"/file/{quote(task.name)}", start, task.rail) as body:
            for size in filled(lambda room: _timed(meter, "link", lambda: body.readinto(room)), buffer):
                meter.count(size)
                yield size

    return read


def _timed(meter: Meter, leg: str, work: Any) -> Any:
    with meter.waiting(leg):
        return work()
