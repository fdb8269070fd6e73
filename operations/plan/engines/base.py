"""What Tandem asks of an engine: its command lines, its files, and which of its flags follow from the plan."""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from operations.plan.engines.named import Place
from operations.plan.knobs import Knobs, Topology
from operations.plan.nodes import Node
from operations.plan.recipe import Answers, Recipe

#: Tokens of the longest prompt, where a recipe does not say.
CONTEXT_TOKENS = 262_144


@dataclass(frozen=True)
class Signs:
    """What an engine says of its own work: what `pattern` finds in the answer to GET `path` changes while it works.

    It must not change when only somebody asks, or when requests arrive at an engine that hangs.
    """

    path: str
    pattern: str


@dataclass(frozen=True)
class Question:
    """What an engine is asked to show that it works: POST `body` and the served name to `path`, of the engine as of the
    proxy; `pattern` is found in a good answer.
    """

    path: str
    body: Mapping[str, Any]
    pattern: str


class Engine(Protocol):
    """One serving program."""

    #: What is asked of it, by what it is there for; it can't be proven to give any other kind of answer.
    QUESTIONS: Mapping[Answers, Question]
    #: By which the canary knows that it works.
    SIGNS: Signs
    #: Topologies that it can take part in here.
    TOPOLOGIES: tuple[Topology, ...]
    #: Whether a cluster's ranks can be stages of a pipeline.
    PIPELINES: bool
    #: Architectures (as models' config.json have them) that it can't put into stages, as a pattern; empty: none.
    STAGELESS: str
    #: Flags (canonical names) that follow from the plan, each with what says it instead.
    OWNED: Mapping[str, str]
    #: Flags for which a list in a recipe is as many words; for others it is JSON.
    SEVERAL: Collection[str]
    #: Short flags and the long names that they stand for.
    SHORT: Mapping[str, str]

    def arguments(self, words: Sequence[str]) -> list[str] | None:
        """What follows the program's name in a command line; None: it is another program's."""
        ...

    def placed(self, recipe: Recipe, place: Place) -> list[str]:
        """The recipe's flags, with what `place` says for each model, adapter and file that they name."""
        ...

    def answers(self, recipe: Recipe) -> Answers:
        """What the recipe's flags, or else its model's name, say that clients can ask for."""
        ...

    def adapters(self, recipe: Recipe) -> tuple[str, ...]:
        """Names under which it serves adapters beside the model."""
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

    def share(self, recipe: Recipe) -> float:
        """The share of a node's memory that it takes, by the recipe's flags; 0: they do not say."""
        ...

    def with_share(self, recipe: Recipe, share: float) -> Recipe:
        """The recipe with another share of a node's memory."""
        ...

    def step_tokens(self, recipe: Recipe) -> int:
        """Tokens that it may compute between two signs of life; 0: its own default, which is small."""
        ...

    def context_tokens(self, recipe: Recipe) -> int:
        """Tokens of the longest prompt that it takes."""
        ...


def count(value: object) -> int:
    """A number of tokens as flags have it: 8192, `128k` (thousands), `128K` (1024s); 0: no number."""
    found = re.fullmatch(r"(\d+(?:\.\d+)?)([kKmM]?)", str(value))
    units = {"": 1, "k": 1000, "m": 1000**2, "K": 1024, "M": 1024**2}
    return int(float(found[1]) * units[found[2]]) if found else 0
