"""Whether another host has an address, and which VRRP ids are in use on a network: asked before an address is taken."""

from __future__ import annotations

import socket
import struct
import time
from typing import Any

#: Seconds between two questions, and those of listening: VRRP's usual pace is one a second.
PAUSE_S, LISTEN_S = 0.3, 1.3
_ARP, _IPV4, _VRRP = 0x0806, 0x0800, 112
_ALL = 0x0003
#: Where routers that share an address speak.
_GROUP = "224.0.0.18"


def main(address: str, interface: str) -> dict[str, Any]:
    """`mac`: of who answers for the address (RFC 5227's probe), or empty; `vrids`: {id: [addresses that say it]}."""
    with (
        socket.socket(socket.AF_PACKET, socket.SOCK_RAW, socket.htons(_ALL)) as wire,
        socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as member,
    ):
        wire.bind((interface, _ALL))
        index = socket.if_nametoindex(interface)
        group = struct.pack("4s4si", socket.inet_aton(_GROUP), bytes(4), index)
        member.setsockopt(socket.IPPROTO_IP, socket.IP_ADD_MEMBERSHIP, group)
        mac, wanted = wire.getsockname()[4], socket.inet_aton(address)
        question = (
            b"\xff" * 6 + mac + struct.pack("!HHHBBH", _ARP, 1, _IPV4, 6, 4, 1) + mac + bytes(4) + bytes(6) + wanted
        )
        holder, vrids = "", dict[str, list[str]]()
        begun, asked = time.monotonic(), 0
        while (now := time.monotonic() - begun) < LISTEN_S:
            if asked < 3 and now >= asked * PAUSE_S:
                wire.send(question)
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
