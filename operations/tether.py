"""Commands on a node that live exactly as long as this deploy: when it ends, dies or is cut off, so do they.

The remote side reads beats from its standard input and ends when they stop. So a lock can't be left behind, and
nothing that listens for a copy outlives the copy.
"""

from __future__ import annotations

import json
import socket
from typing import Any

import gevent
from pyinfra.api.host import Host

from operations.remote import command, programs

#: Seconds between beats; the remote side gives up after three times as long (operations/node/beats.py).
BEAT_S = 5


class Tether:
    """A node program in its own ssh channel, and the beats that keep it alive."""

    def __init__(self, host: Host, program: str, **arguments: Any) -> None:
        transport = host.connector.client.get_transport()  # type: ignore[attr-defined]
        self._channel = transport.open_session()
        self._channel.exec_command(f"sudo -n {command(program, arguments).get_raw_value()}")
        self._out = self._channel.makefile("r")
        self._send(programs().strip())
        self._beats = gevent.spawn(self._beat)

    def read(self) -> dict[str, Any]:
        """The next line that the program printed; empty when it has ended."""
        line = self._out.readline()
        answer: dict[str, Any] = json.loads(line) if line.strip() else {}
        return answer

    def close(self) -> None:
        """Let go: the remote side ends at once."""
        self._beats.kill()
        self._channel.close()

    def _beat(self) -> None:
        while not self._channel.closed:
            self._send("")
            gevent.sleep(BEAT_S)

    def _send(self, line: str) -> None:
        try:
            self._channel.sendall(f"{line}\n".encode())
        except OSError:
            pass


def can_tether(host: Host) -> bool:
    """Whether the node is reached over ssh; the @fake connector has no channel."""
    return getattr(host.connector, "client", None) is not None


def quicken(host: Host) -> None:
    """Switch Nagle's algorithm off: with it each remote command waits about 44 ms for a delayed ACK."""
    client = getattr(host.connector, "client", None)
    if client is not None:
        client.get_transport().sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
