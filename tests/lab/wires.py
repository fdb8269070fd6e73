"""What a wire of the lab must be able to do, whatever hangs on its inner end."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Protocol

from tests.lab.cables import Port
from tests.lab.settings import LabNode

#: Jumbo frames pass; the node's own end keeps 1500 until the deploy raises it.
WIRE_MTU = "9000"


class Wires(Protocol):
    """One kind of wires. Outer ends are interfaces with the ports' names, in the office's bridge or the fabric."""

    #: Whether what a node does with its own ends is seen from outside, so that a watcher is of use.
    IS_WATCHED: bool

    def prepare(self, node: LabNode) -> None:
        """Make what a node's wires need before it boots; what is there already stays."""

    def awake(self, nodes: Sequence[LabNode]) -> set[Port]:
        """The ports whose inner ends a node has up, as far as it can be seen."""

    def show(self, wanted: Mapping[Port, bool]) -> None:
        """Show the nodes these carriers; a wire that is not there is left out."""

    def take(self, port: Port) -> None:
        """Take a netdev away from a node; one that is not there is no fault."""

    def give(self, port: Port) -> None:
        """Give it back as a new device; one that is there is no fault."""

    def go_dark(self, node: LabNode) -> None:
        """Do to a node's own ends what losing its power does."""
