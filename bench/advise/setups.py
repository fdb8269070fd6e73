"""Ways to serve a model, and what is known of one: figures, and where they are from."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

Figure = Literal["prefill", "decode", "ttft", "whole", "user"]
#: From the best to the worst. `computed`: from rows of the same model at another load, or of another setup.
Kind = Literal["own run", "published", "computed", "estimate"]
KINDS: tuple[Kind, ...] = ("own run", "published", "computed", "estimate")
FIGURES: tuple[Figure, ...] = ("prefill", "decode", "ttft")


@dataclass(frozen=True, order=True)
class Setup:
    """`how`: a cluster's executor, with the stages of its pipeline where there are several, or the routing of replicas;
    empty: solo, or not known. `on`: nodes that compute, 0: one of solo and two of others. `group`: nodes of an engine
    of replicas.
    """

    topology: str
    how: str = ""
    on: int = 0
    group: int = 1

    def __post_init__(self) -> None:
        if self.on == (1 if self.topology == "solo" else 2):
            object.__setattr__(self, "on", 0)

    @property
    def nodes(self) -> int:
        """How many compute."""
        return self.on or (1 if self.topology == "solo" else 2)

    @property
    def ranks(self) -> int:
        """Nodes of one engine."""
        return self.nodes if self.topology == "cluster" else self.group

    @property
    def engines(self) -> int:
        """How many answer."""
        return self.nodes // self.ranks

    def __str__(self) -> str:
        on = f"{self.engines} pairs" if self.group == 2 else f"{self.on} nodes" if self.on else ""
        return ", ".join(filter(None, (self.topology, self.how, on)))
