"""Two virtual machines that serve: replicas of llama.cpp, or a cluster of two ranks of vLLM's double."""

from __future__ import annotations

import shlex
from dataclasses import dataclass
from typing import ClassVar

from tests.chaos.scene import Scene
from tests.lab import desk
from tests.lab.cluster import on
from tests.lab.settings import LabNode

#: As the fault matrix names them.
REPLICAS, CLUSTER = "replicas", "cluster/mp"
TOPOLOGIES = (REPLICAS, CLUSTER)
INVENTORIES = {
    REPLICAS: "tests/lab/on_machines/inventory.py",
    CLUSTER: "tests/lab/on_vllm_double/inventory.py",
}


@dataclass
class Machines(Scene):
    """`variant`: their architecture."""

    #: An emulated node answers a request in seconds, and boots and starts in many minutes.
    CLIENTS: ClassVar[int] = 2
    PATIENCE_S: ClassVar[float] = 1800.0

    @classmethod
    def here(cls, topology: str) -> Machines:
        """Those that are up, with one of TOPOLOGIES."""
        return cls(topology.partition("/")[0], "mp", desk.remembered().arch)

    @property
    def knobs(self) -> dict[str, str]:
        return {"topology": self.topology}

    @property
    def inventory(self) -> str:
        return INVENTORIES[self.name.rpartition("/")[0]]

    def said(self, node: LabNode, *argv: str) -> str:
        return on(node, shlex.join(argv), check=False)
