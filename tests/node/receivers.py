"""Who receives alarms in tests: a webhook, and a mail server that takes everything."""

from __future__ import annotations

import socketserver
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from email import message_from_bytes, policy
from http.server import ThreadingHTTPServer
from typing import Any

from tests.support.serving import Quiet, running


@dataclass
class Received:
    """What has come so far. `status`: what the webhook answers."""

    port: int = 0
    status: int = 200
    hooks: list[tuple[str, str, dict[str, Any]]] = field(default_factory=list)
    mails: list[tuple[str, str]] = field(default_factory=list)


@contextmanager
def webhook(address: str = "127.0.0.1") -> Iterator[Received]:
    """`hooks`: path, header Authorization and body of each."""
    got = Received()

    class Handler(Quiet):
        def do_POST(self) -> None:
            got.hooks.append((self.path, self.headers.get("Authorization", ""), self.sent()))
            self.reply(status=got.status)

    with _served(ThreadingHTTPServer((address, 0), Handler), got):
        yield got


@contextmanager
def mail_server(address: str = "127.0.0.1") -> Iterator[Received]:
    """`mails`: subject and text of each."""
    got = Received()

    class Handler(socketserver.StreamRequestHandler):
        def handle(self) -> None:
            self._say("220 here")
            while line := self.rfile.readline().decode().strip():
                word = line.upper()[:4]
                if word == "DATA":
                    self._say("354 go on")
                    lines = list(iter(self.rfile.readline, b".\r\n"))
                    mail = message_from_bytes(b"".join(lines), policy=policy.default)
                    text = mail.get_body(("plain",))
                    got.mails.append((mail["Subject"], text.get_content() if text else ""))
                self._say("221 bye" if word == "QUIT" else "250 ok")
                if word == "QUIT":
                    return

        def _say(self, line: str) -> None:
            self.wfile.write(f"{line}\r\n".encode())

    with _served(socketserver.ThreadingTCPServer((address, 0), Handler), got):
        yield got


@contextmanager
def _served(server: socketserver.TCPServer, got: Received) -> Iterator[None]:
    got.port = server.server_address[1]
    with running(server):
        yield
