"""Who is on this network: one question by multicast DNS (RFC 6762), from a port of its own, so that no root is needed.

A host tells its name to whoever asks who has its address. So all addresses of the own /24 are asked about in a few
packets, and a host need not announce any service. Nobody is scanned: who does not speak mDNS hears nothing.
"""

from __future__ import annotations

import ipaddress
import re
import socket
import struct
import time
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

GROUP = ("224.0.0.251", 5353)
SERVICE = "_ssh._tcp.local"
#: Names that are tried as they are: what two boxes are called most often.
KNOWN = tuple(f"spark-{number}.local" for number in range(1, 9))
#: How long answers are waited for, seconds: hosts wait up to 0.12 s before they speak (RFC 6762, 6), Wi-Fi longer.
WAIT_S = 1.5
#: Questions of one packet: an Ethernet frame holds these names.
QUESTIONS = 40
_A, _PTR, _AAAA, _SRV = 1, 12, 28, 33
_IN = 1
_NAME = re.compile(r"[a-z0-9][a-z0-9.-]*\.local")


class NoNetwork(Exception):
    """Nothing can be sent from this machine; the text says why."""


@dataclass(frozen=True)
class Heard:
    """A host that answered: its name, and the IPv4 address under which it can be reached (empty: it told none)."""

    name: str
    address: str = ""


def own_address() -> str:
    """This machine's IPv4 address on the network that it uses; raises NoNetwork where it has none."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        try:
            # Nothing is sent: the kernel says which address it would send from.
            probe.connect(GROUP)
            return str(probe.getsockname()[0])
        except OSError as error:
            raise NoNetwork(error.strerror or str(error)) from None


def hear(wait_s: float = WAIT_S) -> list[Heard]:
    """All hosts that answer within `wait_s` seconds, by name; raises NoNetwork."""
    own = own_address()
    names: dict[str, str] = {}
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as ask:
        ask.setsockopt(socket.IPPROTO_IP, socket.IP_MULTICAST_TTL, 255)
        ask.setsockopt(socket.IPPROTO_IP, socket.IP_MULTICAST_IF, socket.inet_aton(own))
        ask.bind((own, 0))
        try:
            for packet in questions(own):
                ask.sendto(packet, GROUP)
        except OSError as error:
            raise NoNetwork(error.strerror or str(error)) from None
        until = time.monotonic() + wait_s
        while (left := until - time.monotonic()) > 0:
            ask.settimeout(left)
            try:
                packet, sender = ask.recvfrom(9000)
            except OSError:
                break
            for name, address in told(packet):
                # A host may tell the addresses of all its ports: the one that it answered from is the way to it.
                if address == sender[0] or not names.get(name):
                    names[name] = address
    return [Heard(name, address) for name, address in sorted(names.items())]


def questions(own: str) -> Iterator[bytes]:
    """The packets: who offers ssh, who has the known names, and who has each address beside `own`."""
    around = ipaddress.ip_network(f"{own}/24", strict=False)
    asked = [(SERVICE, _PTR), *((name, _A) for name in KNOWN)]
    asked += [(address.reverse_pointer, _PTR) for address in around.hosts()]
    for first in range(0, len(asked), QUESTIONS):
        part = asked[first : first + QUESTIONS]
        yield struct.pack(">6H", 0, 0, len(part), 0, 0, 0) + b"".join(_question(*each) for each in part)


def _question(name: str, kind: int) -> bytes:
    labels = b"".join(bytes([len(label)]) + label.encode() for label in name.split("."))
    return labels + b"\0" + struct.pack(">2H", kind, _IN)


def told(packet: bytes) -> Iterator[tuple[str, str]]:
    """(name, IPv4 address or empty) of each host that an answer names; of what is no answer, nothing."""
    try:
        found = list(_records(packet))
    except (struct.error, IndexError, UnicodeDecodeError, ValueError):
        return
    addresses = {name: value for name, kind, value in found if kind == _A}
    hosts = dict.fromkeys(_hosts(found))
    # Anybody may answer, and what is no name of a host is shown to nobody.
    yield from ((name, addresses.get(name) or given) for name, given in hosts if is_name(name))


def is_name(name: str) -> bool:
    """Whether it can be a host's, in small letters: nothing that a terminal, or ssh, could take for something else."""
    return bool(_NAME.fullmatch(name))


def _hosts(records: Iterable[tuple[str, int, str]]) -> Iterator[tuple[str, str]]:
    for name, kind, value in records:
        if kind == _A:
            yield name, value
        elif kind == _SRV:
            yield value, ""
        elif kind == _PTR and name.endswith(".in-addr.arpa"):
            yield value, ".".join(reversed(name.removesuffix(".in-addr.arpa").split(".")))


def _records(packet: bytes) -> Iterator[tuple[str, int, str]]:
    _, flags, asked, *counts = struct.unpack_from(">6H", packet)
    if not flags & 0x8000:
        return
    at = 12
    for _ in range(asked):
        at = _name(packet, at)[1] + 4
    for _ in range(sum(counts)):
        name, at = _name(packet, at)
        kind, _, _, length = struct.unpack_from(">HHIH", packet, at)
        at += 10
        if kind == _A and length == 4:
            yield name, kind, str(ipaddress.IPv4Address(packet[at : at + 4]))
        elif kind == _PTR:
            yield name, kind, _name(packet, at)[0]
        elif kind == _SRV:
            yield name, kind, _name(packet, at + 6)[0]
        at += length


def _name(packet: bytes, at: int) -> tuple[str, int]:
    """A name, and where what follows it begins. A pointer leads back only, so there is no way round in circles."""
    labels: list[str] = []
    after, limit = 0, at
    while length := packet[at]:
        if length >= 0xC0:
            after = after or at + 2
            at = struct.unpack_from(">H", packet, at)[0] & 0x3FFF
            if at >= limit:
                raise ValueError("a pointer that does not lead back")
            limit = at
            continue
        labels.append(packet[at + 1 : at + 1 + length].decode())
        at += 1 + length
    return ".".join(labels).lower(), after or at + 1
