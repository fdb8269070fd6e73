"""Serve one model, image, or plan's kernels to one peer, over the rails, as long as the deploy holds the tether."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from socketserver import TCPServer
from typing import Any
from urllib.parse import unquote

from operations.node import beats
from operations.node.copy import source
from operations.node.image import layers
from operations.node.kernels import compiled, kept
from operations.node.model import proof
from operations.wire.kernels import Made, Offered
from operations.wire.model import Ready


def main(
    addresses: list[str],
    port: int,
    peers: list[str],
    store: str,
    folder: str = "",
    revision: str = "",
    kind: str = "model",
    only: Sequence[str] = (),
    image: str = "",
    kernels: str = "",
    made: Made | None = None,
) -> Ready:
    """Print {"ready": true} and serve until the tether ends. `only`: patterns of a model's files; none: all. `kernels`:
    their place, and `made`: for what.
    """
    shared = Shared(peers, Path(store) / folder / "snapshots" / revision, image, only)
    if kernels and made:
        shared = _of_kernels(peers, kernels, made)
    try:
        serve(addresses, port, shared)
    except OSError as error:
        return {"ready": False, "error": str(error)}
    print(json.dumps({"ready": True}), flush=True)
    beats.hold()
    # Not a clean shutdown: a transfer may be going on, and whoever wanted it is gone.
    sys.stdout.flush()
    os._exit(0)


@dataclass(frozen=True)
class Shared:
    """What is served, and to whom: addresses of peers, a snapshot (of it what the patterns `only` mean, none: all), an
    image by name.

    For a snapshot that is still arriving: `have`, name -> blob of what is there; `coming`, names that are on their way;
    `uploads`, how many files are given at once. `kernels`: what is listed of them; the snapshot is their folder.
    """

    peers: Sequence[str]
    snapshot: Path
    image: str = ""
    only: Sequence[str] = ()
    have: Callable[[], dict[str, str]] | None = None
    coming: Callable[[], list[str]] = list
    uploads: threading.Semaphore | None = None
    kernels: Offered | None = None


def _of_kernels(peers: Sequence[str], place: str, made: Made) -> Shared:
    files = kept.offered(place, made)
    names = {name: entry["sha256"] for name, entry in files.items()}
    here = compiled.CACHE / place
    # Without a list it has none: `offered` has removed one that can't be read.
    told = (compiled.read(here) if compiled.is_proven(here) else None) or {"content": "", "processor": ""}
    return Shared(peers, here, have=lambda: names, kernels={"made": told, "files": files})


def of(snapshot: Path, only: Sequence[str] = ()) -> str:
    """By what workers tell whether they copy the same: one may be a model further than another."""
    return " ".join((snapshot.parents[1].name, snapshot.name, *only))


def serve(addresses: Sequence[str], port: int, shared: Shared) -> None:
    """Serve on every address, in threads. Raises OSError when another program is there."""
    for server in [_Server((address, port), partial(_Handler, shared)) for address in addresses]:
        threading.Thread(target=server.serve_forever, daemon=True).start()


class _Server(ThreadingHTTPServer):
    def server_bind(self) -> None:
        # HTTPServer's own asks DNS for a name that nobody needs. Without a router that takes seconds, for each rail.
        TCPServer.server_bind(self)


class _Handler(BaseHTTPRequestHandler):
    """`/model`: the manifest; `/kernels`: theirs; `/have`: names and blobs that are here, and names that are coming;
    `/file/NAME`: a file, from `Range: bytes=N-`. POST `/image` with `{"have": [...]}`: an archive for `docker load`,
    without the layers of these chain ids. (A line of a header ends at 64 KiB, which is a thousand of them.)
    """

    protocol_version = "HTTP/1.1"

    def __init__(self, shared: Shared, *arguments: Any) -> None:
        self.shared = shared
        super().__init__(*arguments)

    def do_GET(self) -> None:
        """Answer a peer; anybody else gets nothing."""
        if not self._is_peer():
            return
        if self.path == "/model":
            self._json(proof.manifest(self.shared.snapshot, self.shared.only))
        elif self.path == "/kernels" and self.shared.kernels:
            self._json(self.shared.kernels)
        elif self.path == "/have":
            have, coming = self._have(), self.shared.coming()
            self._json({"of": of(self.shared.snapshot, self.shared.only), "have": have, "coming": coming})
        elif self.path.startswith("/file/"):
            self._file_if_free(unquote(self.path.removeprefix("/file/")))
        else:
            self.send_error(404)

    def do_POST(self) -> None:
        """Likewise."""
        if not self._is_peer():
            return
        told = json.loads(self.rfile.read(int(self.headers.get("Content-Length", 0))))
        if self.path == "/image" and self.shared.image:
            self._image(told["have"])
        else:
            self.send_error(404)

    def _is_peer(self) -> bool:
        if self.client_address[0] in self.shared.peers:
            return True
        self.close_connection = True
        return False

    def log_message(self, format: str, *arguments: Any) -> None:
        """Standard error is the deploy's."""

    def _have(self) -> dict[str, str]:
        if self.shared.have:
            return self.shared.have()
        return {name: entry["blob"] for name, entry in proof.manifest(self.shared.snapshot, self.shared.only).items()}

    def _json(self, value: object) -> None:
        body = json.dumps(value).encode()
        self.send_response(200)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def _file_if_free(self, name: str) -> None:
        uploads = self.shared.uploads
        if uploads is None:
            self._file(name)
        elif uploads.acquire(blocking=False):
            try:
                self._file(name)
            finally:
                uploads.release()
        else:
            self.send_error(source.BUSY)

    def _file(self, name: str) -> None:
        if name not in self._have():
            self.send_error(404)
            return
        start = int(self.headers.get("Range", "bytes=0-").removeprefix("bytes=").rstrip("-"))
        with (self.shared.snapshot / name).open("rb") as file:
            size = os.fstat(file.fileno()).st_size
            self.send_response(206 if start else 200)
            self.send_header("Content-Length", str(size - start))
            self.end_headers()
            self.wfile.flush()
            self.connection.sendfile(file, start)

    def _image(self, have: Sequence[str]) -> None:
        self.close_connection = True
        self.send_response(200)
        self.send_header("Connection", "close")
        if made := layers.archive(self.shared.image, have):
            size, chunks = made
            self.send_header("Content-Length", str(size))
            self.end_headers()
            for chunk in chunks:
                self.wfile.write(chunk)
            return
        self.end_headers()
        with subprocess.Popen(["docker", "save", self.shared.image], stdout=subprocess.PIPE) as save:
            assert save.stdout is not None
            shutil.copyfileobj(save.stdout, self.wfile, 1 << 20)
