"""Serve one model and one image to one peer, over the rails, as long as the deploy holds the tether."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import threading
from functools import partial
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import unquote

from operations.node import beats, layers, model_files


def main(
    addresses: list[str],
    port: int,
    peers: list[str],
    store: str,
    folder: str = "",
    revision: str = "",
    image: str = "",
) -> dict[str, Any]:
    """Print {"ready": true} and serve until the tether ends."""
    snapshot = Path(store) / folder / "snapshots" / revision
    handler = partial(_Handler, peers, snapshot, image)
    try:
        servers = [ThreadingHTTPServer((address, port), handler) for address in addresses]
    except OSError as error:
        return {"ready": False, "error": str(error)}
    for server in servers:
        threading.Thread(target=server.serve_forever, daemon=True).start()
    print(json.dumps({"ready": True}), flush=True)
    beats.hold()
    # Not a clean shutdown: a transfer may be going on, and whoever wanted it is gone.
    sys.stdout.flush()
    os._exit(0)


class _Handler(BaseHTTPRequestHandler):
    """`/model`: the manifest; `/file/NAME`: a file, from `Range: bytes=N-`; `/image`: an archive for `docker load`,
    without the layers whose chain ids are in `Have`.
    """

    protocol_version = "HTTP/1.1"

    def __init__(self, peers: list[str], snapshot: Path, image: str, *arguments: Any) -> None:
        self.peers, self.snapshot, self.image = peers, snapshot, image
        super().__init__(*arguments)

    def do_GET(self) -> None:
        """Answer a peer; anybody else gets nothing."""
        if self.client_address[0] not in self.peers:
            self.close_connection = True
            return
        if self.path == "/model":
            self._json(model_files.manifest(self.snapshot))
        elif self.path.startswith("/file/"):
            self._file(unquote(self.path.removeprefix("/file/")))
        elif self.path == "/image" and self.image:
            self._image()
        else:
            self.send_error(404)

    def log_message(self, format: str, *arguments: Any) -> None:
        """Standard error is the deploy's."""

    def _json(self, value: object) -> None:
        body = json.dumps(value).encode()
        self.send_response(200)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def _file(self, name: str) -> None:
        if name not in model_files.manifest(self.snapshot):
            self.send_error(404)
            return
        start = int(self.headers.get("Range", "bytes=0-").removeprefix("bytes=").rstrip("-"))
        with (self.snapshot / name).open("rb") as file:
            size = os.fstat(file.fileno()).st_size
            self.send_response(206 if start else 200)
            self.send_header("Content-Length", str(size - start))
            self.end_headers()
            self.wfile.flush()
            self.connection.sendfile(file, start)

    def _image(self) -> None:
        self.close_connection = True
        self.send_response(200)
        self.send_header("Connection", "close")
        if made := layers.archive(self.image, self.headers.get("Have", "").split()):
            size, chunks = made
            self.send_header("Content-Length", str(size))
            self.end_headers()
            for chunk in chunks:
                self.wfile.write(chunk)
            return
        self.end_headers()
        with subprocess.Popen(["docker", "save", self.image], stdout=subprocess.PIPE) as save:
            assert save.stdout is not None
            shutil.copyfileobj(save.stdout, self.wfile, 1 << 20)
