"""What can be chosen, and what each would give under a load."""

from __future__ import annotations

from dataclasses import dataclass, replace

from bench.advise.evidence import FIGURES, Evidence, Figure, Kind, Setup, Value
from bench.advise.kv import Room, room, too_much
from bench.advise.load import Load
from bench.advise.measured import recipe_executor
from bench.advise.models import Model
from operations.plan.recipe import Recipe

#: From the best to the worst.
KINDS: tuple[Kind, ...] = ("own run", "published", "estimate")
#: Up to how many users it is looked for who stays within a target.
MOST = 256
OWN: tuple[Figure, ...] = ("whole", "user")


@dataclass(frozen=True)
class Outlook:
    """One setup under a load. Values are missing where nothing is known; `why_not`: it can't serve this load."""

    setup: Setup
    load: Load
    values: dict[Figure, Value]
    room: Room
    why_not: str = ""
    #: Users who wait until others have their answer, and how long that is on average over all.
    waiting: int = 0
    waited: float = 0.0

    def of(self, figure: Figure) -> float | None:
        """Tokens a second, or seconds."""
        value = self.values.get(figure)
        return value.value if value else None

    @property
    def pace(self) -> float | None:
        """Seconds from one token of an answer to the next. From decode alone others' prefill is in it."""
        if user := self.of("user"):
            return 1 / user
        decode = self.of("decode")
        return (self.load.users - self.waiting) / decode if decode else None

    @property
    def whole(self) -> float | None:
        """Seconds until a user has the whole answer: as it was measured, or until all have theirs."""
        if whole := self.of("whole"):
            return whole
        ttft, prefill, decode = self.of("ttft"), self.of("prefill"), self.of("decode")
        if ttft is None or not prefill or not decode:
            return None
        at_once = self.load.users - self.waiting
        prefilled = at_once * self.load.prompt / prefill
        # First tokens come evenly until all prompts are read; decode counts from the first of them.
        served = ttft - self.waited
        first = min(max(2 * served - prefilled, prefilled / at_once), served)
        return self.waited + first + at_once * (self.load.answer - 1) / decode

    @property
    def in_target(self) -> bool | None:
        """None: it is not known."""
        ttft, pace = self.of("ttft"), self.pace
        return None if ttft is None or pace is None else self.load.missed(ttft, pace) <= 1

    @property
    def missed(self) -> float | None:
        """By how many times the worst part of the target is missed; below 1: it is met."""
        ttft, pace = self.of("ttft"), self.pace
        return None if ttft is None or pace is None else self.load.missed(ttft, pace)

    @property
    def kind(self) -> Kind | None:
        """The worst of what it was made from."""
        kinds = [value.kind for value in self.values.values()]
        return max(kinds, key=KINDS.index, default=None)


@dataclass(frozen=True)
class Question:
    """A recipe on so many nodes, and all that is known of it."""

    recipe: Recipe
    model: Model | None
    nodes: int
    evidence: Evidence

    def setups(self) -> list[Setup]:
        """The ways in which the recipe may be served: as they were measured, else the plain one of each topology."""
        plain = {"solo": Setup("solo"), "cluster": Setup("cluster", recipe_executor(self.recipe)),
                 "replicas": Setup("replicas", "simple-shuffle")}  # fmt: skip
        found = []
        for topology in ("solo", "cluster", "replicas"):
            if topology in self.recipe.topologies and (topology == "solo" or self.nodes > 1):
                measured = [each for each in self.evidence.setups(topology) if each.how != "least-busy"]
                found += measured or [plain[topology]]
        return found

    def outlook(self, setup: Setup, load: Load) -> Outlook:
        """A setup under a load; where not all are let in at once, the others wait for those to end."""
        if why := too_much(self.recipe, setup.topology, self.nodes):
            return Outlook(setup, load, {}, Room(0, why, None, None), why)
        place = room(self.recipe, self.model, setup.topology, self.nodes, load)
        if place.at_once == 0:
            return Outlook(setup, load, {}, place, f"no room for one such request ({place.words})")
        at_once = min(load.users, place.at_once or load.users)
        if why := self.evidence.said(setup, at_once):
            return Outlook(setup, load, {}, place, why)
        values = {each: value for each in FIGURES if (value := self.evidence.at(setup, each, load.at(at_once)))}
        for only_own in OWN:
            value = self.evidence.at(setup, only_own, load.at(at_once))
            if value and value.kind == "own run":
                values[only_own] = value
        seen = Outlook(setup, load.at(at_once), values, place)
        if at_once == load.users:
            return seen
        rounds = sum(user // at_once for user in range(load.users)) / load.users
        waited = rounds * (seen.whole or 0.0)
        for figure in ("ttft", "whole"):
            if figure in values:
                value = values[figure]
                words = f"{value.words}, and {rounds:.1f} rounds of waiting"
                values[figure] = replace(value, value=value.value + waited, words=words, repeats=())
        return Outlook(setup, load, values, place, waiting=load.users - at_once, waited=waited)

    def most_in_target(self, setup: Setup, load: Load) -> int | None:
        """The most users with whom a setup stays within the target; None: nothing is known of it."""
        if self.outlook(setup, load.at(1)).in_target is None:
            return None
        below, above = 0, 1
        while above <= MOST and self.outlook(setup, load.at(above)).in_target:
            below, above = above, above * 2
        above = min(above, MOST + 1)
        while above - below > 1:
            middle = (below + above) // 2
            if self.outlook(setup, load.at(middle)).in_target:
                below = middle
            else:
                above = middle
        return below
