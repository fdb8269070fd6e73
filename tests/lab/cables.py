"""Which port is joined to which, and when a port's outer end is up. Pure."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import NamedTuple

from tests.lab.settings import LINKS, PORT_0, PORT_1, LabNode, port_of


class Port(NamedTuple):
    """One netdev of a node, and the wire that hangs on it."""

    node: LabNode
    link: str

    @property
    def inside(self) -> str:
        """The node's own end."""
        return LINKS[self.link]

    @property
    def outside(self) -> str:
        """The other end of its wire, on the switch or joined to another node's."""
        return self.node.host_side(self.link)

    def __str__(self) -> str:
        return f"{self.node.name}:{self.link}"


def bridges(wiring: str, nodes: Sequence[LabNode]) -> dict[str, list[Port]]:
    """What joins the rails, by name: one switch for all ports 0, or one bridge for each cable.

    Both netdevs of a port hang on it: a ConnectX-7's embedded switch joins the two halves, so that they are one L2, and
    a broadcast of one is heard by the other as well (github.com/NVIDIA/daqiri, issue 108).
    """
    if wiring == "switch":
        return {"switch": [Port(node, link) for node in nodes for link in PORT_0]}
    found: dict[str, list[Port]] = {}
    for near, far in _cables(wiring, nodes):
        found.setdefault(f"cable-{near.node.name}-{port_of(near.link)}", []).extend((near, far))
    return found


def far_ends(wiring: str, nodes: Sequence[LabNode]) -> dict[Port, Port]:
    """The port at the other end of each cable, both ways; nothing on a switch."""
    if wiring == "switch":
        return {}
    return {here: there for one, other in _cables(wiring, nodes) for here, there in ((one, other), (other, one))}


def shall_be_up(port: Port, plugged: bool, far: Port | None, cut: Collection[Port], awake: Mapping[Port, bool]) -> bool:
    """Whether a port's outer end is up, which is the node's carrier as long as its own end is.

    `far`: the other end of its cable, none on a switch; `awake`: whether a node has its own end up.
    """
    if not plugged or port in cut:
        return False
    return far is None or (far not in cut and awake.get(far, False))


def _cables(wiring: str, nodes: Sequence[LabNode]) -> list[list[Port]]:
    if wiring == "cable":
        return [[Port(node, link) for node in nodes] for link in PORT_0] if len(nodes) == 2 else []
    # Each node's port 1 to the next one's port 0.
    following = [*nodes[1:], *nodes[:1]]
    return [
        [Port(node, near), Port(next_one, far)]
        for node, next_one in zip(nodes, following, strict=True)
        for near, far in zip(PORT_1, PORT_0, strict=True)
    ]
