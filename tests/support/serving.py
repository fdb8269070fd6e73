"""HTTP servers in the test's own process."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any


class Quiet(BaseHTTPRequestHandler):
    """A handler that does not log each request."""

    def log_message(self, format: str, *arguments: object) -> None:
        """Nothing."""


@contextmanager
def serving(handler: Callable[..., Any]) -> Iterator[str]:
    """A server on a free port of loopback's, until the end; gives its URL, without a slash behind it."""
    server = ThreadingHTTPServer(("127.0.0.1", 0), handler)
    threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True).start()
    try:
        yield f"http://127.0.0.1:{server.server_port}"
    finally:
        server.shutdown()
        server.server_close()
