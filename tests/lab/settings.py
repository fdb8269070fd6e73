"""Names, places and addresses of the lab. Everything it creates can be found again from here."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple


class Place(NamedTuple):
    """What a kind of lab has for itself: both kinds may be up at once."""

    home: str
    #: Begins the names of its namespaces and bridges, and of its interfaces outside the nodes.
    prefix: str
    short: str
    management_net: str


#: By what the nodes are: hosts booted in namespaces of this machine, or virtual machines with kernels of their own.
PLACES = {
    "namespaces": Place("/var/lib/tandem-lab", "tandem", "tnd", "10.213.77"),
    "vm": Place("/var/lib/tandem-machines", "machines", "vm", "10.213.78"),
}
MACHINES = os.environ.get("MACHINES") or "namespaces"
if MACHINES not in PLACES:
    # The inventory is read here as well, and an exception there is a traceback of pyinfra's.
    raise SystemExit(f"MACHINES is `{MACHINES}`: expected {' or '.join(PLACES)}")
_PLACE = PLACES[MACHINES]
#: Where the lab keeps what it makes. `TANDEM_LAB_DIR` moves it to a disk with more room.
HOME = Path(os.environ.get("TANDEM_LAB_DIR", _PLACE.home))
CACHE = HOME / "cache"
NODES = HOME / "nodes"
CONSOLES = HOME / "consoles"
#: What the head sees, read-only, under ARTEFACTS_ON_HEAD: image archives and the tiny model.
ARTEFACTS = HOME / "artefacts"
ARTEFACTS_ON_HEAD = "/srv/tandem-lab"

#: The login of a node: not root, passwordless sudo, as on a DGX Spark.
LOGIN = "spark"
SSH_KEY = HOME / "id_ed25519"
KNOWN_HOSTS = HOME / "known_hosts"

PREFIX = _PLACE.prefix
MANAGEMENT_BRIDGE = f"{PREFIX}-mgmt"
MANAGEMENT_NET = _PLACE.management_net
#: The rails' switches and cables live in a namespace of their own, out of reach of the host's firewall
#: (a Docker on the host sets FORWARD to DROP and would cut bridged traffic).
FABRIC_NAMESPACE = f"{PREFIX}-fabric"

#: Links of a node: name inside the node (those of a DGX Spark) by lab name. A Spark has two QSFP ports, and each shows
#: as two netdevs: rail0 and rail1 are port 0, rail2 and rail3 are port 1.
LINKS = {
    "mgmt": "enP7s7",
    "rail0": "enp1s0f0np0",
    "rail1": "enP2p1s0f0np0",
    "rail2": "enp1s0f1np1",
    "rail3": "enP2p1s0f1np1",
}
PORT_0, PORT_1 = ("rail0", "rail1"), ("rail2", "rail3")


def port_of(link: str) -> int:
    """The QSFP port that a rail is a half of."""
    return 0 if link in PORT_0 else 1


#: What the lab's images are built on, whatever its nodes run.
DEBIAN_SUITE = "bookworm"


@dataclass(frozen=True)
class LabNode:
    """One host of the lab; `index` counts from 0, the head."""

    index: int

    @property
    def name(self) -> str:
        return f"spark-{self.index + 1}"

    @property
    def namespace(self) -> str:
        """Its network namespace, where it has one; its control group has that name too."""
        return f"{PREFIX}-{self.name}"

    @property
    def address(self) -> str:
        """Management IPv4 address, reachable from this machine alone: the one that its router gave it last."""
        return self.given.read_text() if self.given.exists() else f"{MANAGEMENT_NET}.{11 + self.index}"

    @property
    def given(self) -> Path:
        """Holds an address that is not its first one (`python -m tests.lab move`)."""
        return self.home / "address"

    @property
    def home(self) -> Path:
        return NODES / self.name

    @property
    def disk(self) -> Path:
        """The file that is mounted at `home`, of a host in namespaces."""
        return NODES / f"disk-of-{self.name}"

    @property
    def root(self) -> Path:
        """Its file system, or what a machine's disk gets of the lab's files."""
        return self.home / "root"

    @property
    def console(self) -> Path:
        """The log of its console since it was made. `up` keeps it where the node does not come up."""
        return CONSOLES / f"{self.name}.log"

    def host_side(self, link: str) -> str:
        """Name of a link's other end, outside the node (at most 15 characters)."""
        return f"{_PLACE.short}{self.index + 1}-{link}"


def known_nodes() -> list[LabNode]:
    """The nodes that `up` made, by their folders; empty before the first `up`."""
    if not NODES.is_dir():
        return []
    found = [int(path.name.removeprefix("spark-")) for path in NODES.glob("spark-*")]
    return [LabNode(number - 1) for number in sorted(found)]
