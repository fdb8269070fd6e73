"""A port for clients of a test that know no sockets: what comes there goes to a socket, byte by byte."""

from __future__ import annotations

import socket
import threading
from contextlib import suppress
from socketserver import BaseRequestHandler, ThreadingTCPServer


class Relay(ThreadingTCPServer):
    """Stands until the end of the test's process."""

    daemon_threads, request_queue_size = True, 128

    def __init__(self, path: str) -> None:
        self.path = path
        super().__init__(("127.0.0.1", 0), _Between)
        self.url = f"http://127.0.0.1:{self.server_address[1]}"
        threading.Thread(target=self.serve_forever, daemon=True).start()

    def handle_error(self, request: object, client_address: object) -> None:
        """Nobody listens at the socket: the client sees its connection end."""


class _Between(BaseRequestHandler):
    server: Relay
    request: socket.socket

    def handle(self) -> None:
        with socket.socket(socket.AF_UNIX) as inner:
            inner.connect(self.server.path)
            back = threading.Thread(target=_pass_on, args=(inner, self.request), daemon=True)
            back.start()
            _pass_on(self.request, inner)
            back.join()


def _pass_on(one: socket.socket, other: socket.socket) -> None:
    with suppress(OSError):
        while piece := one.recv(65536):
            other.sendall(piece)
    with suppress(OSError):
        other.shutdown(socket.SHUT_WR)
