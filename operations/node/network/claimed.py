"""Whether another host has an address, and which VRRP ids are in use on a network: asked before an address is taken."""

from __future__ import annotations

import ctypes
import socket
import struct
import time
from contextlib import suppress

from operations.wire.fabric import Claimed

#: Seconds between two questions, and those of listening: VRRP's usual pace is one a second.
PAUSE_S, LISTEN_S = 0.3, 1.3
_ARP, _IPV4, _VRRP = 0x0806, 0x0800, 112
_ALL = 0x0003
#: Where routers that share an address speak.
_GROUP = "224.0.0.18"
_SO_ATTACH_FILTER = 26
#: The kernel's filter language (linux/filter.h): ARP passes, and IPv4 whose protocol is VRRP. A node that serves or
#: copies has other frames by the hundred thousand, and what does not fit into the socket's buffer is lost.
_FILTER = (
    (0x28, 0, 0, 12),  # the frame's kind
    (0x15, 3, 0, _ARP),
    (0x15, 0, 3, _IPV4),
    (0x30, 0, 0, 23),  # the packet's protocol
    (0x15, 0, 1, _VRRP),
    (0x06, 0, 0, 0xFFFF),
    (0x06, 0, 0, 0),
)


def main(address: str, interface: str) -> Claimed:
    """`mac`: of who answers for the address (RFC 5227's probe), or empty; `vrids`: {id: [addresses that say it]}."""
    with (
        socket.socket(socket.AF_PACKET, socket.SOCK_RAW, 0) as wire,
        socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as member,
    ):
        _only_what_matters(wire)
        wire.bind((interface, _ALL))
        mac, wanted = wire.getsockname()[4], socket.inet_aton(address)
        group = struct.pack("4s4si", socket.inet_aton(_GROUP), bytes(4), socket.if_nametoindex(interface))
        # What knows no multicast has no VRRP of its own either.
        with suppress(OSError):
            member.setsockopt(socket.IPPROTO_IP, socket.IP_ADD_MEMBERSHIP, group)
        # A tunnel has no MAC, and nobody to ask.
        asks = question(mac, wanted) if len(mac) == 6 else b""
        holder, vrids = "", dict[str, list[str]]()
        begun, asked = time.monotonic(), 0
        while (now := time.monotonic() - begun) < LISTEN_S:
            if asks and asked < 3 and now >= asked * PAUSE_S:
                wire.send(asks)
                asked += 1
            wire.settimeout(0.1)
            try:
                frame = wire.recv(2048)
            except TimeoutError:
                continue
            kind = int.from_bytes(frame[12:14], "big")
            # Somebody says that he is it, be it an answer or an announcement.
            if kind == _ARP and frame[28:32] == wanted and frame[22:28] != mac:
                holder = frame[22:28].hex(":")
            elif kind == _IPV4 and len(frame) > 23 and frame[23] == _VRRP:
                header = (frame[14] & 15) * 4
                said, source = frame[14 + header : 16 + header], socket.inet_ntoa(frame[26:30])
                if len(said) == 2 and source not in vrids.setdefault(str(said[1]), []):
                    vrids[str(said[1])].append(source)
    return {"mac": holder, "vrids": vrids}


def _only_what_matters(wire: socket.socket) -> None:
    steps = b"".join(struct.pack("HBBI", *step) for step in _FILTER)
    kept = ctypes.create_string_buffer(steps, len(steps))
    program = struct.pack("HP", len(_FILTER), ctypes.addressof(kept))
    wire.setsockopt(socket.SOL_SOCKET, _SO_ATTACH_FILTER, program)


def question(mac: bytes, wanted: bytes, own: bytes = bytes(4)) -> bytes:
    """The frame that asks who has it. From no address of its own nobody takes it into his table."""
    to_all = b"\xff" * 6 + mac + struct.pack("!H", _ARP)
    return to_all + struct.pack("!HHBBH", 1, _IPV4, 6, 4, 1) + mac + own + bytes(6) + wanted
