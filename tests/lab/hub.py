"""A small Hub: the part of the Hugging Face protocol that a download uses, over models in HF cache layout.

    python -m tests.lab.hub FOLDER [PORT] [TOKEN]     serves on the lab's management address

With a token it refuses whoever does not send it, as the Hub does for a gated model.
"""

from __future__ import annotations

import json
import os
import re
import sys
from functools import partial
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import unquote

from tests.lab.settings import ARTEFACTS, MANAGEMENT_NET

API = re.compile(r"^/api/models/(?P<repo>[^/]+/[^/]+)/(?P<what>revision|tree)/(?P<revision>[^/?]+)")
FILE = re.compile(r"^/(?P<repo>[^/]+/[^/]+)/resolve/(?P<revision>[^/]+)/(?P<name>[^?]+)")


class Hub(BaseHTTPRequestHandler):
    """Answers /api/models/ORG/NAME/{revision,tree}/REV and /ORG/NAME/resolve/REV/FILE, with ranges."""

    protocol_version = "HTTP/1.1"

    def __init__(self, folder: Path, token: str, *arguments: Any) -> None:
        self.folder, self.token = folder, token
        super().__init__(*arguments)

    def do_HEAD(self) -> None:
        """What a file is, without it."""
        self.do_GET()

    def do_GET(self) -> None:
        """Metadata or a file; the Hub's own errors, in its own headers."""
        if self.token and self.headers.get("Authorization") != f"Bearer {self.token}":
            self._refuse(401, "GatedRepo", "Access to this model is restricted: log in")
        elif match := API.match(self.path):
            self._metadata(match["repo"], match["revision"], match["what"])
        elif match := FILE.match(self.path):
            self._file(match["repo"], match["revision"], unquote(match["name"]))
        else:
            self._refuse(404, "EntryNotFound", "no such page")

    def log_message(self, format: str, *arguments: Any) -> None:
        """One line for each request."""
        print(f"hub: {self.command} {self.path} {arguments[1] if len(arguments) > 1 else ''}", file=sys.stderr)

    def _snapshot(self, repo: str, revision: str) -> Path | None:
        home = self.folder / ("models--" + repo.replace("/", "--"))
        if not home.is_dir():
            self._refuse(404, "RepoNotFound", "Repository not found")
            return None
        reference = home / "refs" / revision
        snapshot = home / "snapshots" / (reference.read_text() if reference.exists() else revision)
        if not snapshot.is_dir():
            self._refuse(404, "RevisionNotFound", f"Invalid rev id: {revision}")
            return None
        return snapshot

    def _metadata(self, repo: str, revision: str, what: str) -> None:
        snapshot = self._snapshot(repo, revision)
        if snapshot is None:
            return
        files = [_entry(file) for file in sorted(snapshot.iterdir())]
        siblings = [_sibling(entry) for entry in files]
        whole = {"id": repo, "modelId": repo, "sha": snapshot.name, "private": False, "siblings": siblings}
        body = json.dumps(files if what == "tree" else whole).encode()
        self._answer(200, body, {"Content-Type": "application/json"})

    def _file(self, repo: str, revision: str, name: str) -> None:
        snapshot = self._snapshot(repo, revision)
        if snapshot is None:
            return
        file = snapshot / name
        if not file.exists():
            self._refuse(404, "EntryNotFound", f"no {name}")
            return
        etag = Path(os.path.realpath(file)).name
        body = file.read_bytes()
        headers = {"X-Repo-Commit": snapshot.name, "ETag": f'"{etag}"', "Accept-Ranges": "bytes"}
        wanted = re.match(r"bytes=(\d+)-(\d*)", self.headers.get("Range", ""))
        if wanted:
            start, end = int(wanted[1]), min(int(wanted[2] or len(body)), len(body) - 1)
            headers["Content-Range"] = f"bytes {start}-{end}/{len(body)}"
            self._answer(206, body[start : end + 1], headers)
        else:
            self._answer(200, body, headers)

    def _refuse(self, status: int, code: str, message: str) -> None:
        headers = {"X-Error-Code": code, "X-Error-Message": message, "Content-Type": "application/json"}
        self._answer(status, json.dumps({"error": message}).encode(), headers)

    def _answer(self, status: int, body: bytes, headers: dict[str, str]) -> None:
        self.send_response(status)
        for name, value in {**headers, "Content-Length": str(len(body))}.items():
            self.send_header(name, value)
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(body)


def _entry(file: Path) -> dict[str, Any]:
    """A file in the Hub's tree: what lies in LFS has its sha256 beside git's own hash of the pointer."""
    etag, size = Path(os.path.realpath(file)).name, file.stat().st_size
    entry: dict[str, Any] = {"type": "file", "path": file.name, "size": size, "oid": etag[:40]}
    if len(etag) == 64:
        entry["lfs"] = {"oid": etag, "size": size, "pointerSize": 134}
    return entry


def _sibling(entry: dict[str, Any]) -> dict[str, Any]:
    """A file in what the Hub says of a model (asked with `blobs=true`)."""
    lfs = {"sha256": entry["lfs"]["oid"], "size": entry["size"], "pointerSize": 134} if "lfs" in entry else None
    return {"rfilename": entry["path"], "size": entry["size"], "blobId": entry["oid"], "lfs": lfs}


def serve(
    folder: Path, port: int, token: str = "", address: str = f"{MANAGEMENT_NET}.1", kind: type[Hub] = Hub
) -> ThreadingHTTPServer:
    """A server that the caller runs (`serve_forever`) and closes."""
    return ThreadingHTTPServer((address, port), partial(kind, folder, token))


if __name__ == "__main__":
    words = sys.argv[1:]
    serve(
        Path(words[0]) if words else ARTEFACTS / "hub",
        int(words[1]) if len(words) > 1 else 8099,
        words[2] if len(words) > 2 else "",
    ).serve_forever()
