"""What was seen on a node that let us in."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from ipaddress import IPv4Interface, ip_address

from operations.node.network.links import PORT_NAME, RAIL_DRIVERS
from operations.plan.cluster.nodes import port_of
from operations.plan.config.plain import plain

#: What begins every line of ours: a login's own files may print too.
MARK = "tandem:"
#: Not the way to a node: loopback, and what containers and tunnels make.
_OTHERS = re.compile(r"lo|docker\d*|br-.*|veth.*|virbr.*|tun\d*|tailscale\d*|wg\d*")


@dataclass(frozen=True)
class Seen:
    """`ports`: carrier of each QSFP port, by the end of its interfaces' names; `way_in`: the netdev of this login;
    `office`: an IPv4 address on another netdev than a rail. GiB; 0: not told.
    """

    host: str = ""
    machine: str = ""
    product: str = ""
    memory_gib: float = 0.0
    disk_gib: int = 0
    sudo: bool = False
    ports: Mapping[str, bool] = field(default_factory=dict)
    way_in: str = ""
    office: str = ""
    rails: Sequence[str] = ()

    @property
    def by_rail(self) -> bool:
        """Whether the login came in where a deploy sets addresses anew, or from the node itself."""
        return self.way_in in self.rails or self.way_in == "lo"


def read(output: str) -> Seen | None:
    """From what look.sh said; None: it said nothing of ours."""
    words: dict[str, list[str]] = {}
    for line in output.splitlines():
        if line.startswith(MARK):
            key, _, rest = line.removeprefix(MARK).partition(" ")
            words.setdefault(key, []).append(rest.strip())
    if "sudo" not in words:
        return None
    nets = [(*each.split(), "")[:3] for each in words.get("net", [])]
    rails = [name for name, _, driver in nets if PORT_NAME.match(name) and driver in RAIL_DRIVERS]
    ports: dict[str, bool] = {}
    for name, carrier, _ in nets:
        if name in rails:
            ports[port_of(name)] = ports.get(port_of(name), False) or carrier == "1"
    addresses = [(device, text) for device, _, text in (each.split()[:3] for each in words.get("addr", []))]
    # It is shown, and whoever answers may say anything.
    first = {key: plain(values[0]) for key, values in words.items()}
    return Seen(
        host=first.get("host", "").partition(".")[0],
        machine=first.get("id", ""),
        product=first.get("product", ""),
        memory_gib=int(first.get("mib") or 0) / 1024,
        disk_gib=int(first.get("disk") or 0),
        sudo=first["sudo"] == "yes",
        ports=ports,
        way_in=_device(first.get("in", ""), addresses),
        office=_office(addresses, rails),
        rails=tuple(rails),
    )


def _device(address: str, addresses: Iterable[tuple[str, str]]) -> str:
    plain = address.partition("%")[0]
    if plain and ip_address(plain).is_loopback:
        return "lo"
    return next((device for device, text in addresses if text.partition("/")[0] == plain), "")


def _office(addresses: Iterable[tuple[str, str]], rails: Sequence[str]) -> str:
    for device, text in addresses:
        if ":" in text or device in rails or _OTHERS.fullmatch(device):
            continue
        if not IPv4Interface(text).ip.is_link_local:
            return text.partition("/")[0]
    return ""
