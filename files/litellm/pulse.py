"""A thread that says on its own socket that this process runs, and with how many requests.

The proxy asks it three times a second. LiteLLM's event loop can't be asked so often: a burst of 256 streams keeps it
busy for seconds, and a check that waits for it takes a busy process for a dead one. A process that is stopped or dead
answers neither; one whose loop alone hangs is the canary's matter.
"""

from __future__ import annotations

import gc
import os
import socket
import threading
import time
from http.server import BaseHTTPRequestHandler
from socketserver import ThreadingMixIn, UnixStreamServer
from typing import Any

import engines

#: Seconds for this process to take a connection of its own.
CONNECT_S = 1.0
#: Seconds between two looks whether it listens.
LOOK_S = 0.1


class UnderWay:
    """Around LiteLLM's application (ASGI): how many requests it has."""

    def __init__(self, application: Any) -> None:
        self.application, self.count = application, 0

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        if scope["type"] == "lifespan":
            await self.application(scope, receive, send)
            return
        self.count += 1
        try:
            await self.application(scope, receive, send)
        finally:
            self.count -= 1


class Pulse(BaseHTTPRequestHandler):
    """200, or 503 until LiteLLM takes requests: how many are under way, and the hash of the engines' configuration."""

    protocol_version = "HTTP/1.0"
    #: Seconds that one who asks and says nothing keeps a thread.
    timeout = 2
    takes_requests = False
    under_way: UnderWay

    def do_GET(self) -> None:
        """One answer."""
        self.send_response(200 if Pulse.takes_requests else 503)
        self.end_headers()
        self.wfile.write(f"{Pulse.under_way.count} {engines.known.loaded}".encode())

    def log_message(self, format: str, *args: Any) -> None:
        """Three lines a second would be no log."""


class Listener(ThreadingMixIn, UnixStreamServer):
    """Answers each question in a thread of its own."""

    daemon_threads = True

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Who asked has given up; the proxy says what that means."""


def begin(under_way: UnderWay) -> None:
    """From now on, by threads: on the socket $TANDEM_PULSE. `under_way`: which requests are told."""
    Pulse.under_way = under_way
    listener = Listener(os.environ["TANDEM_PULSE"], Pulse)
    # Whose folder it lies in says who gets there: a umask of the owner's alone would shut root's programs out.
    os.chmod(os.environ["TANDEM_PULSE"], 0o660)
    for work in (listener.serve_forever, _take_requests):
        threading.Thread(target=work, daemon=True).start()


def _take_requests() -> None:
    """Once it listens it takes requests, but for one thing before. A million objects have been loaded, and Python would
    look through all of them whenever a body makes many more: 0.5 s in which nobody is answered. They stay to the end.
    """
    while not _listens(os.environ["TANDEM_LISTENS"]):
        time.sleep(LOOK_S)
    gc.collect()
    gc.freeze()
    Pulse.takes_requests = True


def _listens(path: str) -> bool:
    with socket.socket(socket.AF_UNIX) as own:
        own.settimeout(CONNECT_S)
        try:
            own.connect(path)
        except OSError:
            return False
    return True
