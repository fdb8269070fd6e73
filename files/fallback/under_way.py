"""Whether an engine has requests under way, whatever engine it is: connections to its port that stand for a while.

The proxies close a connection that has been idle for two seconds, and a look at the engine's metrics is over at once.
"""

from __future__ import annotations

import socket
import struct
from pathlib import Path

#: How the kernel writes that a connection stands.
_ESTABLISHED = "01"


class UnderWay:
    """Connections to an IPv4 address and port of this node."""

    def __init__(self, address: str, port: int, table: Path = Path("/proc/net/tcp")) -> None:
        # As the kernel prints it: the address as a number of this machine's own byte order.
        number = struct.unpack("=I", socket.inet_aton(address))[0]
        self.local, self.table = f"{number:08X}:{port:04X}", table
        self.seen: set[str] = set()

    def any(self) -> bool:
        """Whether one that stood at the last look stands still."""
        before, self.seen = self.seen, self.standing()
        return bool(before & self.seen)

    def standing(self) -> set[str]:
        """The other ends of those that stand."""
        rows = (line.split() for line in self.table.read_text().splitlines()[1:])
        return {row[2] for row in rows if row[1] == self.local and row[3] == _ESTABLISHED}
