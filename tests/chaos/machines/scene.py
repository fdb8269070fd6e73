"""Replicas of llama.cpp on virtual machines."""

from __future__ import annotations

import shlex
from dataclasses import dataclass
from typing import ClassVar

from tests.chaos.scene import Scene
from tests.lab import desk
from tests.lab.cluster import on
from tests.lab.settings import LabNode

TOPOLOGY = "replicas"
INVENTORY = "tests/lab/on_machines/inventory.py"


@dataclass
class Machines(Scene):
    """`variant`: their architecture."""

    #: An emulated node answers a request in seconds, and boots and starts in many minutes.
    CLIENTS: ClassVar[int] = 2
    PATIENCE_S: ClassVar[float] = 1800.0

    @classmethod
    def here(cls) -> Machines:
        """Those that are up."""
        return cls(TOPOLOGY, "", desk.remembered().arch)

    @property
    def knobs(self) -> dict[str, str]:
        return {"topology": TOPOLOGY}

    @property
    def inventory(self) -> str:
        return INVENTORY

    def said(self, node: LabNode, *argv: str) -> str:
        return on(node, shlex.join(argv), check=False)
