"""A responder of multicast DNS: each node named on the command line has an address from 10.77.0.11 on.

It answers as Avahi does: a name, the address' name, and `_ssh._tcp` where SERVICE is set; to a port that is not 5353
by unicast, with the question in the answer (RFC 6762, 6.7).
"""

from __future__ import annotations

import os
import socket
import struct
import sys

A, PTR, SRV = 1, 12, 33


def name_of(packet: bytes, at: int) -> tuple[str, int]:
    labels = []
    while packet[at]:
        labels.append(packet[at + 1 : at + 1 + packet[at]].decode())
        at += 1 + packet[at]
    return ".".join(labels), at + 1


def encoded(name: str) -> bytes:
    return b"".join(bytes([len(label)]) + label.encode() for label in name.split(".")) + b"\0"


def record(name: bytes, kind: int, data: bytes) -> bytes:
    return name + struct.pack(">HHIH", kind, 1, 10, len(data)) + data


def answer(packet: bytes, node: str, address: str) -> bytes:
    """What a node says to the questions that are about it; empty: nothing."""
    count, at, found = struct.unpack_from(">H", packet, 4)[0], 12, b""
    for _ in range(count):
        name, after = name_of(packet, at)
        kind = struct.unpack_from(">H", packet, after)[0]
        reverse = ".".join(reversed(address.split("."))) + ".in-addr.arpa"
        question = packet[at : after + 4]
        # The question's own name, by a pointer to it.
        if (name, kind) == (reverse, PTR):
            found = question + record(b"\xc0\x0c", PTR, encoded(node))
        elif (name, kind) == (node, A):
            found = question + record(b"\xc0\x0c", A, socket.inet_aton(address))
        elif (name, kind) == ("_ssh._tcp.local", PTR) and os.environ.get("SERVICE"):
            instance = encoded(f"{node.partition('.')[0]}._ssh._tcp.local")
            found = question + record(b"\xc0\x0c", PTR, instance)
            found += record(instance, SRV, struct.pack(">3H", 0, 0, 22) + encoded(node))
            found += record(encoded(node), A, socket.inet_aton(address))
            return struct.pack(">6H", 0, 0x8400, 1, 3, 0, 0) + found
        if found:
            return struct.pack(">6H", 0, 0x8400, 1, 1, 0, 0) + found
        at = after + 4
    return b""


def main() -> None:
    nodes = [(f"{name}.local", f"10.77.0.{11 + index}") for index, name in enumerate(sys.argv[1:])]
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as own:
        own.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        own.bind(("", 5353))
        member = socket.inet_aton("224.0.0.251") + socket.inet_aton("10.77.0.1")
        own.setsockopt(socket.IPPROTO_IP, socket.IP_ADD_MEMBERSHIP, member)
        print("ready", flush=True)
        while True:
            packet, sender = own.recvfrom(9000)
            for node, address in nodes:
                if said := answer(packet, node, address):
                    own.sendto(said, sender)


if __name__ == "__main__":
    main()
