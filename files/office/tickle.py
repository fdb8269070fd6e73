"""Ends the streams that clients have through a node that held the virtual address and is gone, or stands still.

The holder of the address says who is connected to it there. The next one sends each of those an ACK that fits nothing.
The client's kernel answers with where its connection stands. Ours has no such connection and answers with RST. So the
client knows in some milliseconds what it would wait minutes for (RFC 9293, 3.10.7.4 and 3.5.2). CTDB calls the ACK a
tickle. It does nothing to a connection that is well, and nothing to who has none.

Clients of an address that a node itself has no more are told as well, by the node.
"""

from __future__ import annotations

import socket
import struct
import time
from collections.abc import Iterator
from contextlib import suppress
from ipaddress import IPv4Address
from pathlib import Path

#: Connections that are told of: as many as HAProxy takes (operations/plan/services/proxy_service.py), in one datagram.
MOST = 2000
#: Seconds from one ACK to the next: a kernel answers two of them in half a second once (tcp_invalid_ratelimit). The
#: first may be before its table of neighbours knows who has the address now.
AGAIN_S, TIMES = 0.6, 4
#: How the kernel writes that a connection stands.
_ESTABLISHED = "01"
#: rtnetlink's word for an address that has come (linux/rtnetlink.h), and the head of each of its words.
_NEW_ADDRESS, _HEAD = 20, struct.Struct("=IHHII")
#: A head of 20 bytes, and these flags (RFC 9293, 3.1); a packet of IPv4 (linux/if_ether.h).
_WORDS, _ACK, _RST, _IPV4 = 5 << 4, 0x10, 0x04, 0x0800

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
                wire.sendto(_segment((address, port), (host, far), _ACK), (host, 0))


def end_left(device: str, address: str, port: int) -> int:
    """End the connections to an address that this node had, as long as their other ends still send to it here; how many
    there were. The kernel has them still, and can send nothing from an address that is none of its own: so the answer
    to the ACK is read off the interface, and the RST that fits it is made here. Raises OSError: it has not the right.
    """
    peers = {*connected(address, port)}
    count = len(peers)
    raw = socket.socket(socket.AF_INET, socket.SOCK_RAW, socket.IPPROTO_RAW)
    with raw as wire, socket.socket(socket.AF_PACKET, socket.SOCK_DGRAM, socket.htons(_IPV4)) as ear:
        ear.bind((device, _IPV4))
        for _ in range(TIMES if peers else 0):
            for peer in peers:
                _say(wire, _segment((address, port), peer, _ACK), address, peer)
            end = time.monotonic() + AGAIN_S
            while peers and (left := end - time.monotonic()) > 0:
                ear.settimeout(left)
                with suppress(OSError):
                    peer, wanted = _answer(ear.recv(2048), (address, port))
                    if peer in peers:
                        peers.discard(peer)
                        _say(wire, _segment((address, port), peer, _RST, wanted), address, peer)
    return count


def _say(wire: socket.socket, segment: bytes, address: str, peer: Peer) -> None:
    """A segment with a head of IPv4 of its own; the kernel fills in the length, the number and the sum (raw(7))."""
    ends = socket.inet_aton(address) + socket.inet_aton(peer[0])
    head = struct.pack("!BBHHHBBH", 0x45, 0, 0, 0, 0, 64, socket.IPPROTO_TCP, 0) + ends
    with suppress(OSError):
        wire.sendto(head + segment, (peer[0], 0))


def _answer(packet: bytes, to: Peer) -> tuple[Peer, int]:
    """Who has sent a packet of IPv4 to an end, and what it waits for next; nobody: it is something else."""
    begin = (packet[0] & 0xF) * 4
    if packet[9] != socket.IPPROTO_TCP or len(packet) < begin + 20:
        return ("", 0), 0
    source, target, _, wanted, _, flags = struct.unpack_from("!HHIIBB", packet, begin)
    if (socket.inet_ntoa(packet[16:20]), target) != to or not flags & _ACK:
        return ("", 0), 0
    return (socket.inet_ntoa(packet[12:16]), source), wanted


def _segment(near: Peer, peer: Peer, flags: int, number: int = 0) -> bytes:
    head = struct.pack("!HHIIBBHHH", near[1], peer[1], number, 0, _WORDS, flags, 0, 0, 0)
    pseudo = socket.inet_aton(near[0]) + socket.inet_aton(peer[0]) + struct.pack("!HH", socket.IPPROTO_TCP, len(head))
    total = sum(struct.unpack(f"!{len(pseudo + head) // 2}H", pseudo + head))
    while total >> 16:
        total = (total & 0xFFFF) + (total >> 16)
    return head[:16] + struct.pack("!H", ~total & 0xFFFF) + head[18:]


def _number(address: str) -> int:
    """As the kernel prints it: a number of this machine's own byte order."""
    return int(struct.unpack("=I", socket.inet_aton(address))[0])
