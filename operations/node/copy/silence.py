"""Whether what comes over the network has stopped coming, seen from outside of who gets it."""

from __future__ import annotations

import time
from pathlib import Path

#: Seconds in which neither a file changes nor the node's links bring anything, until it is given up: one that
#: roams to another access point is silent for half a minute, and what a client has of a file is lost with it.
SILENCE_S = 90
#: Seconds in which no file changes, whatever moves on the node: it may be somebody else's.
LONGEST_S = 600
#: Bytes that come in all the same: others speak to the node.
LITTLE = 1 << 20
LINKS, DISKS = Path("/proc/net/dev"), Path("/proc/diskstats")
#: Bytes of a sector in /proc/diskstats, whatever the disk's own are.
_SECTOR = 512


class Silence:
    """How long nothing has come.

    A client may gather many MB before it writes them: over a slow line files rest for minutes, and the links do not.
    """

    def __init__(self, quiet_s: float, little: int = LITTLE, longest_s: float = LONGEST_S) -> None:
        self._quiet_s, self._little, self._longest_s = quiet_s, little, longest_s
        self._seen, self._moved = "", 0
        self._changed = self._heard = time.monotonic()

    def allow(self, quiet_s: float) -> None:
        """From now on it may be silent for so many seconds."""
        self._quiet_s = quiet_s

    def look(self, seen: object, moved: int) -> bool:
        """Whether it stands still. `seen`: what differs whenever something of it has been written; `moved`: bytes that
        the node has moved so far, for it or for others.
        """
        now = time.monotonic()
        if repr(seen) != self._seen:
            self._seen, self._changed, self._heard, self._moved = repr(seen), now, now, moved
        if moved - self._moved >= self._little:
            self._moved, self._heard = moved, now
        return now - self._heard >= self._quiet_s or now - self._changed >= self._longest_s

    @property
    def seconds(self) -> float:
        """Since the last change of a file."""
        return time.monotonic() - self._changed


def received() -> int:
    """Bytes that all links but the one to itself have brought since the node's start."""
    rows = (line.split() for line in LINKS.read_text().replace(":", ": ").splitlines()[2:])
    return sum(int(row[1]) for row in rows if row[0] != "lo:")


def written() -> int:
    """Bytes that went to disks since the node's start; what goes through one onto another counts for both."""
    rows = (line.split() for line in DISKS.read_text().splitlines())
    return sum(int(row[9]) * _SECTOR for row in rows if len(row) > 9)
