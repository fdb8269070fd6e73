"""How the page answers: the key first, then a path of a list, read-only, with headers that let nothing else in."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Mapping
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler
from urllib.parse import parse_qs

from keyed import Keyed
from series import Wrong

ROOT = "/tandem"
NOTHING: Mapping[str, str] = {}
#: Answers at once; a browser opens six.
MOST = 16
KINDS = {
    "html": "text/html; charset=utf-8",
    "css": "text/css; charset=utf-8",
    "js": "text/javascript; charset=utf-8",
    "svg": "image/svg+xml",
    "LICENSE": "text/plain; charset=utf-8",
}
#: Nothing from elsewhere, no script in the page itself, in nobody's frame.
HEADERS = {
    "Content-Security-Policy": "default-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'; "
    "object-src 'none'",
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Cache-Control": "no-store",
}
Ask = Callable[[dict[str, list[str]]], Mapping[str, object]]


def handler(keyed: Keyed, files: Mapping[str, bytes], asks: Mapping[str, Ask]) -> type[BaseHTTPRequestHandler]:
    """`files` by their names, `asks` by the names of what they give; index.html is the root itself."""
    free = threading.BoundedSemaphore(MOST)

    class Handler(BaseHTTPRequestHandler):
        timeout = 10
        server_version, sys_version = "tandem", ""

        def do_GET(self) -> None:
            if not free.acquire(blocking=False):
                return self._say(503, b"busy\n", "text/plain", {"Retry-After": "2"})
            try:
                return self._answer()
            finally:
                free.release()

        def do_HEAD(self) -> None:
            self.do_GET()

        def _answer(self) -> None:
            path, _, query = self.path.partition("?")
            if not keyed.admits(self.headers.get_all("Authorization", [])):
                return self._unknown()
            if path == ROOT:
                return self._say(308, b"", "text/plain", {"Location": f"{ROOT}/"})
            name = path.removeprefix(f"{ROOT}/") if path.startswith(f"{ROOT}/") else "?"
            if name in asks:
                return self._told(asks[name], query)
            if (name or "index.html") in files:
                name = name or "index.html"
                return self._say(200, files[name], KINDS[name.rpartition(".")[2]])
            return self._say(404, b"there is no such page\n", "text/plain")

        def _told(self, ask: Ask, query: str) -> None:
            try:
                told = ask(parse_qs(query, keep_blank_values=True, max_num_fields=8))
            except ValueError as error:
                why = str(error) if isinstance(error, Wrong) else "this query can't be read"
                return self._say(400, f"{why}\n".encode(), "text/plain; charset=utf-8")
            return self._say(200, json.dumps(told, allow_nan=False).encode(), "application/json")

        def _unknown(self) -> None:
            """A browser asks its user for the key by this; it is the password, under any name."""
            asks = {"WWW-Authenticate": 'Basic realm="Tandem", charset="UTF-8"'}
            self._say(401, b"", "text/plain", asks)

        def _say(self, status: int, body: bytes, kind: str, more: Mapping[str, str] = NOTHING) -> None:
            self.send_response(status)
            for name, value in {**HEADERS, "Content-Type": kind, "Content-Length": str(len(body)), **more}.items():
                self.send_header(name, value)
            self.end_headers()
            if self.command != "HEAD":
                self.wfile.write(body)

        def send_error(self, code: int, message: str | None = None, explain: str | None = None) -> None:
            """What http.server refuses by itself: a method that is not GET or HEAD, or no HTTP at all."""
            headers = getattr(self, "headers", None)
            if headers is None or not keyed.admits(headers.get_all("Authorization", [])):
                return self._unknown()
            if code == HTTPStatus.NOT_IMPLEMENTED:
                return self._say(405, b"this page is only read\n", "text/plain", {"Allow": "GET, HEAD"})
            return self._say(code, b"", "text/plain")

        def address_string(self) -> str:
            """Who asks by a socket has none."""
            return ""

        def log_message(self, format: str, *arguments: object) -> None:
            """HAProxy's log has each refusal; an answer every five seconds says nothing."""

    return Handler
