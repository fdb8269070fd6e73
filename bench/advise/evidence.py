"""What is known of a setup's figures: measured rows, what lies between them, and the estimate behind them all.

A figure is taken from the first source that has it. Where a worse source fills in, it is held against the better one:
at a setup and number of users that both have, their ratio is what it is multiplied with. A row of another prompt or
answer is carried over by the estimate in the same way. Each value says in words where it is from.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from statistics import fmean
from typing import Literal, Protocol

from bench.advise import models, physics
from bench.advise.load import Load

#: `whole` until a user has the whole answer, `user` what one user sees of it a second: only own runs say these.
Figure = Literal["prefill", "decode", "ttft", "whole", "user"]
Kind = Literal["own run", "published", "estimate"]
FIGURES: tuple[Figure, ...] = ("prefill", "decode", "ttft")


@dataclass(frozen=True, order=True)
class Setup:
    """`how`: a cluster's executor, with the stages of its pipeline where there are several, or the routing of replicas;
    empty: solo, or not known.
    """

    topology: str
    how: str = ""

    def __str__(self) -> str:
        return f"{self.topology}, {self.how}" if self.how else self.topology


@dataclass(frozen=True)
class Value:
    """Tokens a second, or seconds. `repeats`: where it was measured at just this load."""

    value: float
    kind: Kind
    words: str
    repeats: tuple[float, ...] = ()


class Source(Protocol):
    """Something that knows figures."""

    @property
    def kind(self) -> Kind:
        """What its figures are."""

    def at(self, setup: Setup, figure: Figure, load: Load) -> Value | None:
        """None: it does not know."""

    def nearest(self, setup: Setup, figure: Figure, users: int) -> int | None:
        """The number of users next to this one for which it knows the figure."""


@dataclass(frozen=True)
class Estimated:
    """The estimate, of any load; `nodes`: how many there are."""

    model: models.Model
    nodes: int
    kv_bytes: float
    constants: physics.Constants = physics.FITTED
    kind: Kind = "estimate"

    def at(self, setup: Setup, figure: Figure, load: Load) -> Value | None:
        if not self.knows(setup):
            return None
        seen = self._seen(setup, load.users, load.prompt, load.answer)
        value: float = getattr(seen, figure)
        return None if math.isnan(value) else Value(value, self.kind, "estimate")

    def nearest(self, setup: Setup, figure: Figure, users: int) -> int | None:
        return users if self.knows(setup) else None

    def knows(self, setup: Setup) -> bool:
        """Its cluster is tensor-parallel: of stages it knows nothing."""
        return "pipeline_parallel" not in setup.how

    @functools.lru_cache(maxsize=4096)  # noqa: B019 (one advice is one process)
    def _seen(self, setup: Setup, users: int, prompt: int, answer: int) -> physics.Estimate:
        engine = physics.Engine(
            self.model, self.nodes if setup.topology == "cluster" else 1, self.kv_bytes, self.constants
        )
        if setup.topology == "replicas":
            return physics.several(engine, self.nodes, setup.how, users, prompt, answer)
        return physics.one_engine(engine, users, prompt, answer)


@dataclass(frozen=True)
class Measured:
    """Rows over users of one table or run. `said`: what stands where no number is (`OOM`)."""

    kind: Kind
    name: str
    prompt: int | None
    answer: int | None
    rows: Mapping[tuple[Setup, Figure], Mapping[int, tuple[float, ...]]]
    said: Mapping[tuple[Setup, int], str]
    estimated: Estimated | None = None

    def at(self, setup: Setup, figure: Figure, load: Load) -> Value | None:
        rows = self.rows.get((setup, figure), {})
        if not rows or not min(rows) <= load.users <= max(rows):
            return None
        below = max(users for users in rows if users <= load.users)
        above = min(users for users in rows if users >= load.users)
        if below == above:
            values, words = rows[below], f"{self.name}, {below} {_users(below)}"
        else:
            # Throughput over users is nearer to a straight line where both are logarithms.
            share = math.log(load.users / below) / math.log(above / below)
            low, high = math.log(fmean(rows[below])), math.log(fmean(rows[above]))
            values, words = (math.exp(low + share * (high - low)),), f"{self.name}, between {below} and {above} users"
        return self._carried(Value(fmean(values), self.kind, words, values), setup, figure, load)

    def nearest(self, setup: Setup, figure: Figure, users: int) -> int | None:
        rows = self.rows.get((setup, figure), {})
        return min(rows, key=lambda each: abs(math.log(each / users))) if rows else None

    def _carried(self, value: Value, setup: Setup, figure: Figure, load: Load) -> Value:
        """To another prompt and answer than it was measured with."""
        there = Load(load.users, self.prompt or load.prompt, self.answer or load.answer)
        if (there.prompt, there.answer) == (load.prompt, load.answer):
            return value
        if self.estimated and self.estimated.knows(setup):
            here, then = self.estimated.at(setup, figure, load), self.estimated.at(setup, figure, there)
            if not here or not then:
                return value
            factor = here.value / then.value
        else:
            factor = load.prompt / there.prompt if figure == "ttft" else 1.0
        words = f"{value.words}, from {there.prompt:,} in and {there.answer:,} out"
        return Value(value.value * factor, self.kind, words, tuple(each * factor for each in value.repeats))


@dataclass(frozen=True)
class Evidence:
    """Sources, the best first."""

    sources: Sequence[Source]

    def at(self, setup: Setup, figure: Figure, load: Load) -> Value | None:
        """A figure of a setup under a load."""
        for number, source in enumerate(self.sources):
            found = source.at(setup, figure, load)
            if found:
                return self._held_against(number, found, setup, figure, load)
        return None

    def said(self, setup: Setup, users: int) -> str:
        """What somebody measured where there is no figure; empty: nothing is said."""
        for source in self.sources:
            if isinstance(source, Measured) and (setup, users) in source.said:
                return f"{source.said[setup, users]} ({source.name})"
        return ""

    def setups(self, topology: str) -> list[Setup]:
        """In which ways a topology was measured, as the best source has it that has any."""
        for source in self.sources:
            if isinstance(source, Measured):
                found = sorted({setup for setup, _ in source.rows if setup.topology == topology})
                if found:
                    return found
        return []

    def _held_against(self, number: int, found: Value, setup: Setup, figure: Figure, load: Load) -> Value:
        # What has the same engine tells more of another than what has not.
        alike = {"solo": ("replicas", "cluster"), "replicas": ("solo", "cluster"), "cluster": ("solo", "replicas")}
        others = [each for topology in alike[setup.topology] for each in self.setups(topology)]
        for better in self.sources[:number]:
            for anchor in (setup, *others):
                users = load.users if better.at(anchor, figure, load) else better.nearest(anchor, figure, load.users)
                if users is None:
                    continue
                theirs = better.at(anchor, figure, load.at(users))
                ours = self.sources[number].at(anchor, figure, load.at(users))
                if theirs and ours:
                    factor = theirs.value / ours.value
                    if math.isclose(factor, 1.0):
                        return found
                    over = f"{theirs.words.split(',')[0]} over it, {anchor}, {users} {_users(users)}"
                    return Value(found.value * factor, found.kind, f"{found.words}, times {factor:.2f}: {over}")
        return found


def _users(count: int) -> str:
    return "user" if count == 1 else "users"
