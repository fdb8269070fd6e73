"""Where the doors of all nodes ask for a model: HTTP on the fabric, for whoever has the proxies' key.

`POST /UNIT` wants the model of that engine, `GET /UNIT` only asks how it is. The key itself does not travel: what is
shown is a hash of it that is good for nothing else.
"""

from __future__ import annotations

import hashlib
import hmac
import json
from collections.abc import Callable
from contextlib import suppress
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from socketserver import TCPServer
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from operations.wire.ondemand import Told

#: What the hash is over, beside the key; files/litellm/loading.py has the same.
FOR = b"tandem: models on demand"
#: Seconds for whoever asks to say what.
ASK_S = 5.0
#: How a unit is asked for: its name, and whether it is wanted. None: there is no such model.
Ask = Callable[[str, bool], "Told | None"]


def server(address: str, port: int, key: Path, ask: Ask) -> ThreadingHTTPServer:
    """It listens from now on. Raises OSError where it can't."""

    class Handler(BaseHTTPRequestHandler):
        timeout = ASK_S

        def do_GET(self) -> None:
            self._answer(False)

        def do_POST(self) -> None:
            self._answer(True)

        def _answer(self, is_wanted: bool) -> None:
            if not is_shown(self.headers.get("Authorization", ""), key):
                self.send_error(HTTPStatus.UNAUTHORIZED)
                return
            told = ask(self.path.removeprefix("/"), is_wanted)
            if told is None:
                self.send_error(HTTPStatus.NOT_FOUND)
                return
            body = json.dumps(told).encode()
            # Whoever has gone meanwhile asks again.
            with suppress(OSError):
                self.send_response(HTTPStatus.OK)
                self.send_header("Content-Type", "application/json")
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

        def log_message(self, *_: object) -> None:
            """The door's log has each request."""

    class Server(ThreadingHTTPServer):
        daemon_threads = True
        request_queue_size = 128

        def server_bind(self) -> None:
            # HTTPServer's own asks DNS for a name that nobody needs. Without a router that takes seconds.
            TCPServer.server_bind(self)

    return Server((address, port), Handler)


def is_shown(header: str, key: Path) -> bool:
    """Whether somebody shows the hash of the key that lies here. Without a key nobody can."""
    try:
        secret = key.read_text().strip()
    except OSError:
        return False
    return bool(secret) and hmac.compare_digest(header.encode(), f"Bearer {shown(secret)}".encode())


def shown(secret: str) -> str:
    """What whoever has the key shows of it."""
    return hmac.new(secret.encode(), FOR, hashlib.sha256).hexdigest()
