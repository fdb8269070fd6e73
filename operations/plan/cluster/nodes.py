"""Nodes as the plan sees them: a name, a place in the order, addresses, links."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from ipaddress import IPv4Interface, IPv4Network
from typing import Any

from operations.paths import SLICE


@dataclass(frozen=True)
class Link:
    """A netdev that can be a rail, as found on the node. `addressed`: it has an address of the fabric already."""

    device: str
    carrier: bool
    rdma: str | None = None
    addressed: bool = False


@dataclass(frozen=True)
class Node:
    """One host. `index` 0 is the head. `rails` are device names, in the order of the subnets.

    `ssh_port`: where its sshd took the login. `engine_group`: what Docker calls the control group that engines are to
    be in; empty: this node can't tell sockets by their control group. `office`: the management address with its
    prefix where that is IPv4, and its netdev. `rank`: its place among the nodes of one model's engine, where that is
    not its place in the inventory. `memory_mib`: all of its memory; 0: not known. `ends`: in a ring
    (ring.py) the node at the other end of each rail, empty for one that does not answer. `cdi`: its
    Docker gives a container the GPU by the Container Device Interface. `macs`: of the rails' netdevs, empty for one
    that was not there.
    """

    name: str
    index: int
    management: str
    home: str
    machine: str = "aarch64"
    rails: tuple[str, ...] = ()
    rdma: tuple[str, ...] = ()
    subnets: tuple[IPv4Network, ...] = field(default=())
    ssh_port: int = 22
    engine_group: str = ""
    office: str = ""
    office_device: str = ""
    rank: int | None = None
    memory_mib: int = 0
    ends: tuple[str, ...] = ()
    cdi: bool = False
    macs: tuple[str, ...] = ()

    @property
    def is_head(self) -> bool:
        return self.index == 0

    @property
    def place(self) -> int:
        """Its rank in the engine of the model that it is seen with."""
        return self.index if self.rank is None else self.rank

    @property
    def leads(self) -> bool:
        """Whether that engine answers here."""
        return self.place == 0

    @property
    def rail_addresses(self) -> tuple[str, ...]:
        """IPv4 address on each rail: its subnet's eleventh for the head, the next one for the next node, and so on."""
        return tuple(str(subnet.network_address + 11 + self.index) for subnet in self.subnets)

    @property
    def fabric(self) -> str:
        """The address that the ranks and the engines use: the first rail's; loopback where there is none."""
        return self.rail_addresses[0] if self.rails else "127.0.0.1"

    def toward(self, other: Node) -> list[tuple[str, str]]:
        """(device, address of the other's) for each way to another node."""
        there = dict(zip(other.subnets, other.rail_addresses, strict=True))
        return [(rail, there[subnet]) for rail, subnet in zip(self.rails, self.subnets, strict=True) if subnet in there]

    def path(self, text: str) -> str:
        """A path of the knobs on this node: ~ is the login's home."""
        return self.home + text[1:] if text.startswith("~/") else text


def rails_between(node: Node, ranks: Iterable[Node]) -> list[dict[str, str]]:
    """`device` and `address` of each rail that leads to another of the ranks: in a ring not all of them do."""
    return [
        {"device": node.rails[place], "address": node.rail_addresses[place]} for place in _places_between(node, ranks)
    ]


def rdma_between(node: Node, ranks: Iterable[Node]) -> list[dict[str, str]]:
    """`device` and `address` of the RDMA device of each of these rails. Where a rail has none, all devices of the node,
    without addresses: nobody knows which is whose.
    """
    if len(node.rdma) != len(node.rails):
        return [{"device": each, "address": ""} for each in node.rdma]
    rails = rails_between(node, ranks)
    devices = dict(zip(node.rails, node.rdma, strict=True))
    return [{"device": devices[each["device"]], "address": each["address"]} for each in rails]


def _places_between(node: Node, ranks: Iterable[Node]) -> list[int]:
    others = {each.name for each in ranks}
    return [place for place in range(len(node.rails)) if not node.ends or node.ends[place] in others]


def engine_group(firewall: Mapping[str, Any]) -> str:
    """What Docker calls the control group that the firewall knows engines by, from what a survey says: with systemd's
    driver a slice, with Docker's own a path. Empty: the node can't tell sockets by their group.
    """
    if not firewall.get("groups"):
        return ""
    return f"/{SLICE}" if firewall.get("driver") == "cgroupfs" else SLICE


def on_fabric(addresses: Iterable[str], subnets: Iterable[IPv4Network]) -> bool:
    """Whether one of a netdev's addresses (`192.168.177.11/24`) is in a subnet of the rails."""
    return any(IPv4Interface(address).ip in subnet for address in addresses for subnet in subnets)


def choose_rails(links: Sequence[Link], override: Sequence[str] = ()) -> tuple[str, ...]:
    """The two rails of a node: the twins of one port, the one that has the fabric's addresses first, then the one with
    carrier. A cable that is out for a moment moves no rail: addresses, NCCL and every engine would move too.

    A ConnectX-7 port of a GB10 shows as two netdevs, one for each PCIe half: `enp1s0f0np0` and
    `enP2p1s0f0np0`. The end of the name (`f0np0`) is the port, its beginning the half. A second cable
    brings no bandwidth between two nodes (eugr/spark-vllm-docker, docs/NETWORKING.md), so one port is taken.
    """
    if override:
        return tuple(override)
    ports: dict[str, list[Link]] = {}
    for link in links:
        ports.setdefault(port_of(link.device), []).append(link)

    def rank(port: str) -> tuple[int, int, str]:
        of = ports[port]
        return -sum(link.addressed for link in of), -sum(link.carrier for link in of), port

    best = min(ports, key=rank, default=None)
    if best is None:
        return ()
    return halves([link.device for link in ports[best]], best)


def port_of(device: str) -> str:
    """`f0np0`: the two halves of one port have it in common, and hear each other."""
    return device[device.rindex("f") :]


def halves(devices: Sequence[str], port: str) -> tuple[str, ...]:
    """The netdevs of one port, `enp1...` (PCI domain 0) before `enP2p1...`: the same half is rail 0 on every node."""
    return tuple(sorted((each for each in devices if port_of(each) == port), key=lambda name: name.startswith("enP")))
