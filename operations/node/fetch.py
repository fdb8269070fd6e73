"""Fetch an image or a model from the head's share, proving what arrives before it gets its name."""

from __future__ import annotations

import http.client
import json
import subprocess
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from itertools import cycle
from threading import Lock
from typing import Any
from urllib.parse import quote

from operations.node import layers
from operations.node.model_install import Installer

CHUNK = 1 << 20
#: Files in flight at once: both rails, and the disk busy while a hash is computed.
STREAMS = 4
#: Seconds without a byte until a stream is given up.
TIMEOUT_S = 60


class Meter:
    """Counts bytes from several threads and prints where it is once a second."""

    def __init__(self, total: int = 0) -> None:
        self._total, self._done = total, 0
        self._start = self._said = time.monotonic()
        self._lock = Lock()

    def count(self, number: int) -> None:
        """So many more bytes have arrived."""
        with self._lock:
            self._done += number
            now = time.monotonic()
            if now - self._said >= 1:
                self._said = now
                print(json.dumps(self.state(now)), flush=True)

    def state(self, now: float) -> dict[str, Any]:
        """Bytes so far, of how many (0: not known), in how many seconds."""
        return {"bytes": self._done, "of": self._total, "seconds": now - self._start}


def main(what: str, addresses: list[str], port: int, store: str, **arguments: Any) -> dict[str, Any]:
    """`what` is `image` (image) or `model` (folder, revision); the last line has `done` or `error`."""
    try:
        if what == "image":
            return _image(addresses[0], port)
        return _model(addresses, port, store, **arguments)
    except (OSError, http.client.HTTPException, ValueError) as error:
        return {"error": str(error) or type(error).__name__}


def _image(address: str, port: int) -> dict[str, Any]:
    with (
        _get(address, port, "/image", headers={"Have": " ".join(layers.present())}) as body,
        subprocess.Popen(
            ["docker", "load", "--quiet"], stdin=subprocess.PIPE, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE
        ) as load,
    ):
        assert load.stdin is not None and load.stderr is not None
        meter = Meter(body.length or 0)
        try:
            while chunk := body.read(CHUNK):
                load.stdin.write(chunk)
                meter.count(len(chunk))
        except BrokenPipeError:
            pass
        load.stdin.close()
        words = load.stderr.read().decode().strip()
    if load.returncode != 0:
        return {"error": f"docker load: {words}"}
    return {"done": True, **meter.state(time.monotonic())}


def _model(addresses: list[str], port: int, store: str, folder: str, revision: str, **_: Any) -> dict[str, Any]:
    with _get(addresses[0], port, "/model") as body:
        files: dict[str, dict[str, Any]] = json.load(body)
    installer = Installer(store, folder, revision)
    missing = installer.missing(files)
    meter = Meter(sum(files[name]["size"] for name in missing))
    rails = cycle(addresses)

    def take(name: str, address: str) -> None:
        def source(start: int) -> Iterator[bytes]:
            with _get(address, port, f"/file/{quote(name)}", start) as body:
                while chunk := body.read(CHUNK):
                    meter.count(len(chunk))
                    yield chunk

        installer.add(name, files[name], source)

    with ThreadPoolExecutor(STREAMS) as pool:
        for task in [pool.submit(take, name, next(rails)) for name in missing]:
            task.result()
    installer.finish(files)
    return {"done": True, **meter.state(time.monotonic())}


@contextmanager
def _get(
    address: str, port: int, path: str, start: int = 0, headers: dict[str, str] | None = None
) -> Iterator[http.client.HTTPResponse]:
    connection = http.client.HTTPConnection(address, port, timeout=TIMEOUT_S)
    try:
        connection.request("GET", path, headers={"Range": f"bytes={start}-", **(headers or {})})
        response = connection.getresponse()
        if response.status not in (200, 206):
            raise OSError(f"the head answered {response.status} for {path}")
        yield response
    finally:
        connection.close()
