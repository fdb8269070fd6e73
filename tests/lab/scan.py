"""Which TCP ports of a host answer: all 65,535 in seconds, each asked with a connection of its own.

`python -m tests.lab.scan ADDRESS`: prints them.
"""

from __future__ import annotations

import errno
import resource
import select
import socket
import sys
import time
from collections.abc import Sequence

#: Connections under way at once.
AT_ONCE = 16_384
#: Seconds until a port that says nothing counts as silent: a wall has dropped what was sent.
SILENT_S = 1.5
EVERY_PORT = range(1, 65536)


def open_ports(address: str, ports: Sequence[int] = EVERY_PORT, silent_s: float = SILENT_S) -> set[int]:
    """Ports that take a connection; `address` is IPv4, or IPv6 with a zone where it needs one (`fe80::1%eth0`)."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = AT_ONCE + 100
    if soft < wanted:
        resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, max(hard, wanted)))
    family, _, _, _, place = socket.getaddrinfo(address, 0, type=socket.SOCK_STREAM)[0]
    found: set[int] = set()
    for start in range(0, len(ports), AT_ONCE):
        found |= _taken(family, place, ports[start : start + AT_ONCE], silent_s)
    return found


def _taken(family: int, place: tuple[object, ...], ports: Sequence[int], silent_s: float) -> set[int]:
    """Those of some thousands that take a connection."""
    waiting: dict[int, tuple[socket.socket, int]] = {}
    poll = select.epoll()
    found: set[int] = set()
    try:
        for port in ports:
            own = socket.socket(family, socket.SOCK_STREAM | socket.SOCK_NONBLOCK)
            said = own.connect_ex((place[0], port, *place[2:]))
            if said == errno.EINPROGRESS:
                waiting[own.fileno()] = own, port
                poll.register(own, select.EPOLLOUT)
                continue
            own.close()
            if said == 0:
                found.add(port)
            elif said != errno.ECONNREFUSED:
                raise OSError(said, f"{place[0]} can't be asked at all")
        deadline = time.monotonic() + silent_s
        while waiting and (left := deadline - time.monotonic()) > 0:
            for number, _ in poll.poll(left):
                own, port = waiting.pop(number)
                if own.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR) == 0:
                    found.add(port)
                poll.unregister(own)
                own.close()
        return found
    finally:
        poll.close()
        for own, _ in waiting.values():
            own.close()


if __name__ == "__main__":
    print(*sorted(open_ports(sys.argv[1])))
