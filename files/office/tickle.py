"""Ends the streams that clients have through a node that held the virtual address and is gone, or stands still.

Whoever holds the address says who is connected to it there. Whoever gets it sends each of those an ACK that fits nothing.
The client's kernel answers with where its connection stands, ours has no such connection and answers with RST, and the
client knows in some milliseconds what it would wait minutes for (RFC 9293, 3.10.7.4 and 3.5.2). CTDB calls the ACK a
tickle. It does nothing to a connection that is well, and nothing to who has none.
"""

from __future__ import annotations

import socket
import struct
from collections.abc import Iterator
from contextlib import suppress
from ipaddress import IPv4Address
from pathlib import Path

#: Connections that are told of: as many as HAProxy takes (operations/plan/proxy_service.py), in one datagram.
MOST = 2000
#: Seconds from one ACK to the next: a kernel answers two of them in half a second once (tcp_invalid_ratelimit). The
#: first may be before its table of neighbours knows who has the address now.
AGAIN_S, TIMES = 0.6, 4
#: How the kernel writes that a connection stands.
_ESTABLISHED = "01"
#: rtnetlink's word for an address that has come (linux/rtnetlink.h), and the head of each of its words.
_NEW_ADDRESS, _HEAD = 20, struct.Struct("=IHHII")
#: A head of 20 bytes, and this flag (RFC 9293, 3.1).
_WORDS, _ACK = 5 << 4, 0x10

#: Another end of a connection: address and port.
Peer = tuple[str, int]


def connected(address: str, port: int, table: Path = Path("/proc/net/tcp")) -> list[Peer]:
    """Who is connected to an IPv4 address and port of this node."""
    local = f"{_number(address):08X}:{port:04X}"
    rows = (line.split(None, 4) for line in table.read_text().splitlines()[1:] if local in line)
    far = (row[2].split(":") for row in rows if row[1] == local and row[3] == _ESTABLISHED)
    found = [(socket.inet_ntoa(struct.pack("=I", int(host, 16))), int(port, 16)) for host, port in far]
    return found[:MOST]


def believed(said: object) -> list[Peer]:
    """Those in a list that another node has told of; what is no address and port is left out."""
    return list(_clean(said))[:MOST]


def _clean(said: object) -> Iterator[Peer]:
    for each in said if isinstance(said, list) else []:
        with suppress(ValueError, TypeError):
            address, port = each
            if type(address) is str and type(port) is int and 0 < port < 1 << 16:
                host = IPv4Address(address)
                if not (host.is_loopback or host.is_multicast or host.is_unspecified):
                    yield str(host), port


def has_come(address: str, words: bytes) -> bool:
    """Whether the kernel's words (rtnetlink) say that this node has an address from now on."""
    packed, at = socket.inet_aton(address), 0
    while at + _HEAD.size <= len(words):
        length, kind = _HEAD.unpack_from(words, at)[:2]
        if kind == _NEW_ADDRESS and packed in words[at + _HEAD.size : at + length]:
            return True
        at += max(length + 3 & ~3, _HEAD.size)
    return False


def send(address: str, port: int, peers: list[Peer]) -> None:
    """An ACK from the address to each peer. Raises OSError: this node has not the address, or not the right."""
    with socket.socket(socket.AF_INET, socket.SOCK_RAW, socket.IPPROTO_TCP) as wire:
        wire.bind((address, 0))
        for host, far in peers:
            # Whom there is no way to is not told.
            with suppress(OSError):
                wire.sendto(_segment(address, port, host, far), (host, 0))


def _segment(address: str, port: int, host: str, far: int) -> bytes:
    head = struct.pack("!HHIIBBHHH", port, far, 0, 0, _WORDS, _ACK, 0, 0, 0)
    pseudo = socket.inet_aton(address) + socket.inet_aton(host) + struct.pack("!HH", socket.IPPROTO_TCP, len(head))
    total = sum(struct.unpack(f"!{len(pseudo + head) // 2}H", pseudo + head))
    while total >> 16:
        total = (total & 0xFFFF) + (total >> 16)
    return head[:16] + struct.pack("!H", ~total & 0xFFFF) + head[18:]


def _number(address: str) -> int:
    """As the kernel prints it: a number of this machine's own byte order."""
    return int(struct.unpack("=I", socket.inet_aton(address))[0])


class Tickles:
    """What the others tell of the virtual address `address`, and what becomes of it when this node gets it."""

    def __init__(self, address: str, port: int) -> None:
        self.address, self.port = address, port
        self.told = dict[str, list[Peer]]()
        self._peers, self._left, self.due = list[Peer](), 0, float("inf")

    def hear(self, name: str, said: object) -> None:
        """What a node tells, in the place of what it told before."""
        self.told[name] = believed(said)

    def begin(self, now: float) -> int:
        """This node has the address: how many are told so, from now on."""
        self._peers = sorted({peer for peers in self.told.values() for peer in peers})
        self.told.clear()
        self._left, self.due = (TIMES, now) if self._peers else (0, float("inf"))
        return len(self._peers)

    def go_on(self, now: float) -> None:
        """Send what is due by now; raises OSError as `send` does, and then sends nothing more."""
        if now < self.due:
            return
        self._left -= 1
        self.due = float("inf")
        send(self.address, self.port, self._peers)
        if self._left > 0:
            self.due = now + AGAIN_S
