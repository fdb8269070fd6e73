"""Commands on a node that live exactly as long as this deploy: when it ends, dies or is cut off, so do they.

The remote side reads beats from its standard input and ends when they stop. So a lock can't be left behind, and
nothing that listens for a copy outlives the copy.
"""

from __future__ import annotations

import json
import socket
import sys
import time
from collections.abc import Callable
from typing import Any, ParamSpec

import gevent
from pyinfra.api.host import Host

from operations.runner.remote import called, command, named, programs
from operations.wire.lines import Line

P = ParamSpec("P")

#: Seconds between beats; the remote side gives up after three times as long (operations/node/beats.py).
BEAT_S = 5
#: After about 30 s of silence a connection is over: probes while it is idle, milliseconds for what was sent.
#: TCP_KEEPALIVE is macOS's name of TCP_KEEPIDLE.
_GONE = {"TCP_KEEPIDLE": 10, "TCP_KEEPALIVE": 10, "TCP_KEEPINTVL": 5, "TCP_KEEPCNT": 4, "TCP_USER_TIMEOUT": 30_000}
#: In the place of the last one macOS has TCP_RXT_CONNDROPTIME (netinet/tcp.h), in seconds; Python has no name for it.
_GONE_ON_MACOS = {0x80: 30}
#: Goes on while this machine sleeps, which Linux's monotonic clock does not.
_CLOCK = getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC)


def clock() -> float:
    """Seconds since some moment before this process; sleep of the machine counts."""
    return time.clock_gettime(_CLOCK)


class Tether:
    """A node program in its own ssh channel, and the beats that keep it alive."""

    def __init__(self, host: Host, program: Callable[P, Any], *args: P.args, **kwargs: P.kwargs) -> None:
        transport = host.connector.client.get_transport()  # type: ignore[attr-defined]
        self._channel = transport.open_session()
        sent = command(called(program), named(program, args, kwargs))
        self._channel.exec_command(f"sudo -n {sent.get_raw_value()}")
        self._out = self._channel.makefile("r")
        self._send(programs().strip())
        self._beats = gevent.spawn(self._beat)

    def read(self) -> Line:
        """The next line that the program printed; empty when it has ended."""
        line = self._out.readline()
        answer: Line = json.loads(line) if line.strip() else {}
        return answer

    def close(self) -> None:
        """Let go: the remote side ends at once."""
        self._beats.kill()
        self._channel.close()

    def beat(self) -> None:
        """I live; a program that confirms beats says the same number."""
        self._send(f"{clock():.9f}")

    def _beat(self) -> None:
        while not self._channel.closed:
            self.beat()
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
    """Prepare a connection: no waiting for delayed ACKs (Nagle's algorithm costs each remote command about 44 ms), and
    an end to it when nothing has come back for a while: a node that loses power says no goodbye.
    """
    client = getattr(host.connector, "client", None)
    if client is None:
        return
    sock = client.get_transport().sock
    if not hasattr(sock, "setsockopt"):
        # Through a jump host it is a channel, not a socket.
        return
    sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    # Not all of them are there on every system that a deploy is run from.
    for name, value in _GONE.items():
        if option := getattr(socket, name, None):
            sock.setsockopt(socket.IPPROTO_TCP, option, value)
    if sys.platform == "darwin":
        for option, value in _GONE_ON_MACOS.items():
            sock.setsockopt(socket.IPPROTO_TCP, option, value)
