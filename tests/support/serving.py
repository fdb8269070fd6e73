"""Servers in the test's own process, on ports of loopback's."""

from __future__ import annotations

import json
import socket
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from socketserver import BaseServer
from typing import Any


class Quiet(BaseHTTPRequestHandler):
    """A handler that does not log each request."""

    def log_message(self, format: str, *arguments: object) -> None:
        """Nothing."""

    def sent(self) -> Any:
        """What the client has sent, which is JSON."""
        return json.loads(self.rfile.read(int(self.headers["Content-Length"])))

    def reply(self, body: bytes = b"", status: int = 200, kind: str = "application/json") -> None:
        """A whole answer."""
        self.send_response(status)
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)


@contextmanager
def running(server: BaseServer) -> Iterator[None]:
    """It serves, in a thread of its own, until the end; then its port is free."""
    threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True).start()
    try:
        yield
    finally:
        server.shutdown()
        server.server_close()


class Server(ThreadingHTTPServer):
    """One on this port, or a free one, from when it is made until its `end`."""

    daemon_threads = True

    def __init__(self, handler: Callable[..., Any], port: int = 0) -> None:
        super().__init__(("127.0.0.1", port), handler)
        self._running = ExitStack()
        self._running.enter_context(running(self))

    @property
    def url(self) -> str:
        """Without a slash behind it."""
        return f"http://127.0.0.1:{self.server_port}"

    def end(self) -> None:
        """Its port is free then; a second end does nothing."""
        self._running.close()


@contextmanager
def serving(handler: Callable[..., Any], port: int = 0) -> Iterator[str]:
    """The URL of a `Server`, until the end."""
    server = Server(handler, port)
    try:
        yield server.url
    finally:
        server.end()


@contextmanager
def saying(*pieces: bytes, pause_s: float = 0.0) -> Iterator[str]:
    """Whoever connects gets these, with a pause behind each, and then the connection ends; none: nothing, for ever.
    Gives the URL.
    """
    server = socket.create_server(("127.0.0.1", 0))
    taken = []

    def serve() -> None:
        with suppress(OSError):
            while True:
                taken.append(server.accept()[0])
                if pieces:
                    threading.Thread(target=answer, args=(taken[-1],), daemon=True).start()

    def answer(caller: socket.socket) -> None:
        with suppress(OSError):
            caller.recv(4096)
            for piece in pieces:
                caller.sendall(piece)
                time.sleep(pause_s)
            caller.shutdown(socket.SHUT_RDWR)

    threading.Thread(target=serve, daemon=True).start()
    try:
        yield f"http://127.0.0.1:{server.getsockname()[1]}"
    finally:
        # Wakes the thread that accepts; closing alone would leave it, and the port taken.
        server.shutdown(socket.SHUT_RDWR)
        for each in (server, *taken):
            each.close()
