"""Ports of loopback's that nobody has."""

from __future__ import annotations

import os
import socket
from contextlib import suppress


def free_port() -> int:
    """One; another program may take it before it is used."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        return int(listener.getsockname()[1])


def free_ports(count: int) -> int:
    """The first of so many in a row; another test process looks elsewhere first. Raises AssertionError."""
    firsts = range(30000, 32000, count)
    own = os.getpid() % len(firsts)
    for step in range(len(firsts)):
        first = firsts[(own + step) % len(firsts)]
        try:
            for port in range(first, first + count):
                socket.create_server(("127.0.0.1", port)).close()
            return first
        except OSError:
            continue
    raise AssertionError("no free ports")


def listens(port: int) -> bool:
    """Whether somebody takes a connection there."""
    with suppress(OSError), socket.create_connection(("127.0.0.1", port), 1):
        return True
    return False
