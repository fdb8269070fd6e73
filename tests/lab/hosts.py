"""What a node of the lab must be able to do, whatever it is made of."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Protocol

from tests.lab.desk import Desk
from tests.lab.settings import LabNode


class Hosts(Protocol):
    """One kind of nodes."""

    #: Seconds in which one is up, on a machine that does other things too.
    BOOT_S: float
    #: Seconds that a login may take.
    LOGIN_S: int
    #: Prints what differs from boot to boot.
    BOOT_ID: str
    #: Whether a netdev that appears is met by the node's own udev.
    HAS_UDEV: bool

    def prepare(self, desk: Desk, count: int) -> Path:
        """Make what all nodes have in common, once, and look whether so many can be; raises LabError."""

    def lay_out(self, node: LabNode, shared: Path) -> None:
        """Make a node's own place, so that files can be written below `node.root`; what is there already stays."""

    def is_whole(self, node: LabNode, shared: Path) -> bool:
        """Whether a node that is there was made as one would be made now."""

    def boot(self, node: LabNode) -> bool:
        """Boot it and wait until it is off again; returns whether it wants to be booted once more."""

    def discard(self, node: LabNode) -> None:
        """Delete its files; nothing of it runs."""

    def can_keep(self, nodes: Sequence[LabNode]) -> None:
        """Raises LabError where copies of their disks can't be made."""

    def keep(self, nodes: Sequence[LabNode]) -> None:
        """Copy the disks of nodes that are off; raises LabError."""

    def give(self, nodes: Sequence[LabNode], shared: Path) -> bool:
        """Let new nodes begin with these copies; returns whether there are copies of these and of no others."""

    def renumber(self, node: LabNode, old: str) -> None:
        """Give it another address in the office while it runs: `node.address` in the place of an old one."""

    def freeze(self, node: LabNode) -> None:
        """Let the whole node stand still, its kernel too; raises LabError where that can't be."""

    def thaw(self, node: LabNode) -> None:
        """Let it go on."""

    def choose_kernel(self, node: LabNode, name: str) -> None:
        """Another kernel from the next boot on: `own` or `other`; raises LabError where that can't be."""
