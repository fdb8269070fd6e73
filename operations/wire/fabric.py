"""The network of a node: rails, the office's interface, netplan."""

from __future__ import annotations

from typing import TYPE_CHECKING, TypedDict

from operations.wire import Json

if TYPE_CHECKING:
    # Python 3.10 has it not, and nothing here is looked at while a program runs.
    from typing import NotRequired


class Link(TypedDict):
    """An interface that can be a rail (operations/node/network/links.py). `addresses` are IPv4 with their prefixes,
    `routes` what leads over another node (`192.168.177.141 via 192.168.177.77`), `mtu` bytes, `rdma` the RDMA device
    behind it, `arp` the kernel's settings by their names (operations/paths.py).
    """

    carrier: bool
    up: bool
    mtu: int
    addresses: list[str]
    routes: list[str]
    mac: str
    driver: str
    rdma: str | None
    arp: dict[str, str]


#: By netdev.
Links = dict[str, Link]


class Office(TypedDict, total=False):
    """The interface of the login (operations/node/network/links.py): `address` has its prefix; `macs` and `addresses`
    (address -> netdev) are those of the whole node. Empty: there is none.
    """

    device: str
    address: str
    macs: list[str]
    addresses: dict[str, str]


class OfficeState(TypedDict):
    """Addresses in the office: a node's `own`, and others' by their names (operations/node/network/office.py)."""

    own: list[str]
    known: dict[str, list[str]]


class Claimed(TypedDict):
    """Who has an address (a MAC, or empty), and `vrids`: VRRP's id -> addresses that say it
    (operations/node/network/claimed.py).
    """

    mac: str
    vrids: dict[str, list[str]]


class Selected(TypedDict):
    """Which interface an entry of netplan's is about: `match` is what it selects by, in netplan's words; None: by the
    name that is `device`.
    """

    device: str
    match: Json | None


class NetplanEntry(TypedDict):
    """What a file of netplan's gives to an interface, or why it can't be looked into
    (operations/node/network/netplan.py): `unread`, or the others, as in Selected.
    """

    file: str
    unread: NotRequired[str]
    device: NotRequired[str]
    match: NotRequired[Json | None]
    gives: NotRequired[str]


class FabricTold(TypedDict, total=False):
    """What operations/node/network/rails.py answers: `problem` to apply, `kept` and `waiting` to keep. To prove:
    `problems` of frames, `strangers` who answer for an address, `silent` ports, and what has `shut` this node to them.
    """

    problem: str
    kept: bool
    waiting: bool
    problems: list[str]
    strangers: list[str]
    silent: list[str]
    shut: dict[str, str]


class Tried(TypedDict):
    """A connection that a node's firewall is to let in (operations/node/network/owner_firewall.py): over a netdev, to
    `own` from `peer`, which have their prefixes. `is_door`: to the proxy, from the office's network.
    """

    device: str
    own: str
    peer: str
    ports: list[int]
    is_door: bool


class Shut(TypedDict):
    """One that it does not let in: by what, and what lets it in. Addresses have their prefixes."""

    device: str
    own: str
    peer: str
    is_door: bool
    by: str
    remedy: str


class Way(TypedDict):
    """From a port to one of another node's on the same subnet (operations/plan/doctor/ways.py). `port`: of a server."""

    device: str
    own: str
    address: str
    peer_device: str
    rdma: str | None
    peer_rdma: str | None
    port: NotRequired[int]
