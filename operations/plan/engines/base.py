"""What Tandem asks of an engine: its command lines, its files, and which of its flags follow from the plan."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Protocol

from operations.plan.knobs import Knobs, Topology
from operations.plan.nodes import Node
from operations.plan.recipe import MODEL, Recipe


class Engine(Protocol):
    """One serving program."""

    #: Topologies that it can take part in here.
    TOPOLOGIES: tuple[Topology, ...]
    #: Flags (canonical names) that follow from the plan, each with what says it instead.
    OWNED: Mapping[str, str]
    #: Short flags and the long names that they stand for.
    SHORT: Mapping[str, str]

    def arguments(self, words: Sequence[str]) -> list[str] | None:
        """What follows the program's name in a command line; None: it is another program's."""
        ...

    def commands(self, recipe: Recipe, knobs: Knobs, node: Node, serving: Sequence[Node]) -> list[list[str]]:
        """What runs in the container of a node, in order; the last one stays."""
        ...

    def environment(self, recipe: Recipe) -> dict[str, str]:
        """What the engine gets in every topology, under what the recipe says."""
        ...

    def files(self, recipe: Recipe) -> dict[str, str]:
        """Files that it reads, by name; they lie beside start.sh."""
        ...

    def docker(self, recipe: Recipe) -> list[str]:
        """Options of `docker run` that it needs on a GPU."""
        ...


def with_model(recipe: Recipe, path: str) -> list[str]:
    """The recipe's flags, with the path of the model where they name a file of it."""
    return [word.replace(MODEL, path, 1) if word.startswith(f"{MODEL}/") else word for word in recipe.flag_argv]
