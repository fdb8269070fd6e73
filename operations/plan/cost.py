"""What a plan costs before it serves: GB that are downloaded, GiB of disk and memory on each node, minutes."""

from __future__ import annotations

from dataclasses import dataclass

from operations.plan.config.knobs import Topology
from operations.plan.config.spark import FLOOR_GIB, SPARK_GIB
from operations.plan.recipes.recipe import Recipe
from operations.plan.services.demand import demand, free_gib

#: Bytes of a GiB, in GB: disks and downloads are counted in GB, memory in GiB.
GB = 1.073741824
#: Connections for which the download is counted, Mbit/s.
RATES = (100, 1000)


@dataclass(frozen=True)
class Cost:
    """`model_gb`: of the model's files; `image_gb`: of the image on disk (it travels
    compressed); `memory_gib`: that have to be free on each node; `load_minutes`: that a first start may take.
    """

    model_gb: float
    image_gb: float
    memory_gib: float
    load_minutes: float

    @property
    def disk_gb(self) -> float:
        """On each node's disk."""
        return self.model_gb + self.image_gb

    @property
    def download_gb(self) -> float:
        """Over the head's own connection, once: the other nodes have it from the head. At most, as the image counts
        with its size on disk.
        """
        return self.disk_gb

    def download_minutes(self, mbit: float) -> float:
        """At so many Mbit/s."""
        return self.download_gb * 8000 / mbit / 60


def cost(recipe: Recipe, topology: Topology, nodes: int) -> Cost:
    """What a recipe needs in a topology over so many nodes; 0 where the recipe does not say."""
    parts = nodes if topology == "cluster" else 1
    memory = free_gib(recipe, demand(recipe, topology, parts), max(SPARK_GIB), FLOOR_GIB)
    model = recipe.weights_gib or recipe.needs.model_disk_gib
    return Cost(model * GB, recipe.needs.image_disk_gib * GB, memory, recipe.load_minutes)


def lasting(minutes: float) -> str:
    """`14 min`, `2 h 20 min`."""
    whole = max(1, round(minutes))
    return f"{whole} min" if whole < 90 else f"{whole // 60} h {whole % 60} min"
