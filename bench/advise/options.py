"""What can be chosen, and what each would give under a load."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from bench.advise.curves import Curve
from bench.advise.evidence import Evidence, Known
from bench.advise.kv import Room, room_of, too_much
from bench.advise.load import Load
from bench.advise.measured import recipe_executor
from bench.advise.models import Model
from bench.advise.physics import Point
from bench.advise.setups import Kind, Setup
from operations.plan.recipes.recipe import Recipe

#: Up to how many users it is looked for who stays within a target.
MOST = 256
#: The routing that is declared as a rule (group_data/all.py), whatever others have measured with.
DECLARED = "balanced"


@dataclass(frozen=True)
class Outlook:
    """One setup under a load. `point` None: nothing is known; `why_not`: it can't serve this load. Seconds, tokens."""

    setup: Setup
    load: Load
    room: Room
    point: Point | None = None
    kind: Kind = "estimate"
    words: str = ""
    why_not: str = ""
    #: Whether it lies between two numbers of users that were measured.
    is_between: bool = False
    #: Until the first token, those who wait until others have their answer among them.
    first: float = 0.0
    #: Users who wait so, and how long that is on average over all.
    waiting: int = 0
    waited: float = 0.0
    #: Where it was measured at just this load: repeats of each figure.
    repeats: Mapping[str, tuple[float, ...]] = field(default_factory=dict)

    @property
    def at_once(self) -> int:
        """Users who are served together."""
        return self.load.users - self.waiting

    @property
    def pace(self) -> float | None:
        """Seconds from one token of an answer to the next, others' prefill in it."""
        return self.point.pace(self.load.answer) if self.point else None

    @property
    def whole(self) -> float | None:
        """Seconds until a user has the whole answer."""
        pace = self.pace
        return None if pace is None else self.first + (self.load.answer - 1) * pace

    @property
    def together(self) -> float | None:
        """Tokens a second of all answers, from the first question to the last token."""
        return self.load.users * self.load.answer / self.whole if self.whole else None

    def of(self, figure: str) -> float | None:
        """Tokens a second, or seconds, as a bench counts them; `decode` and `prefill` of those served together."""
        if self.point is None:
            return None
        if figure == "ttft":
            return self.first
        if figure == "whole":
            return self.whole
        if figure == "user":
            return 1 / pace if (pace := self.pace) else None
        if figure == "prefill":
            prefilled = self.point.first + self.point.gap
            return self.at_once * self.load.prompt / prefilled if prefilled else None
        return self.point.decode(self.at_once, self.load.answer) if self.load.answer > 1 else None

    @property
    def in_target(self) -> bool | None:
        """None: it is not known."""
        missed = self.missed
        return None if missed is None else missed <= 1

    @property
    def missed(self) -> float | None:
        """By how many times the worst part of the target is missed; below 1: it is met."""
        if self.pace is None:
            return None
        target = self.load.target
        # Who waits for his turn is not served at any speed meanwhile.
        is_of_speed = target is not None and target.ttft_s is None and target.e2e_s is None
        waits = self.load.users / self.at_once if is_of_speed and self.waiting and self.at_once else 0.0
        return max(self.load.missed(self.first, self.pace), waits)


@dataclass(frozen=True)
class Question:
    """A recipe on so many nodes, and all that is known of it. `path`: of a recipe that is not Tandem's own."""

    recipe: Recipe
    model: Model | None
    nodes: int
    evidence: Evidence
    path: str = ""

    @property
    def named(self) -> str:
        """The recipe as the knob `recipe` takes it."""
        return self.path or self.recipe.name

    def setups(self) -> list[Setup]:
        """The ways in which the recipe may be served: as they were measured, else the plain one of each topology.

        More than two nodes may also be used in part, a cluster over a power of two (heads are divided), and as pairs.
        """
        found: list[Setup] = []
        allowed = self.recipe.topologies
        if "solo" in allowed:
            found.append(Setup("solo"))
        if "cluster" in allowed:
            least = max(self.recipe.min_nodes, 2)
            for on in (each for each in (2, 4, 8) if least <= each <= self.nodes):
                found += self._ways("cluster", on) or [Setup("cluster", recipe_executor(self.recipe), on)]
        if "replicas" in allowed and self.nodes > 1:
            ways = self._ways("replicas", self.nodes)
            found += ways
            if not any(each.how == DECLARED for each in ways):
                found.append(Setup("replicas", DECLARED, self.nodes))
            if "cluster" in allowed and self.nodes >= 4 and self.recipe.min_nodes <= 2:
                found.append(Setup("replicas", DECLARED, self.nodes - self.nodes % 2, 2))
        return found

    def _ways(self, topology: str, nodes: int) -> list[Setup]:
        return [each for each in self.evidence.setups(topology, nodes) if each.how != "least-busy"]

    def outlook(self, setup: Setup, load: Load) -> Outlook:
        """A setup under a load; where not all are let in at once, the others wait for those to end."""
        if why := too_much(self.recipe, setup.topology, setup.ranks):
            return Outlook(setup, load, Room(0, why, None, None), why_not=why)
        place = room_of(self.recipe, self.model, setup.engines, setup.ranks, load)
        if place.at_once == 0:
            return Outlook(setup, load, place, why_not=f"no room for one such request ({place.words})")
        let_in = min(load.users, place.let_in or load.users)
        at_once = min(let_in, place.at_once or let_in)
        if why := self.evidence.said(setup, at_once):
            return Outlook(setup, load, place, why_not=why)
        known = self.evidence.known(setup, load)
        if known is None:
            return Outlook(setup, load, place, why_not=self.evidence.decode_alone(setup))
        point = known.curve.at(let_in)
        first = _first(known.curve, load, let_in, at_once)
        kind, words, is_between = _where(known, load.at(let_in), setup)
        waiting = load.users - at_once
        if waiting and kind in ("own run", "published"):
            # Those who are served were measured, and nobody's wait was.
            kind, words, is_between = "computed", f"from {words}, and a computed wait", False
        repeats = {} if waiting else _repeats(known, load, setup)
        waited = max(first - point.first, 0.0)
        return Outlook(setup, load, place, point, kind, words, "", is_between, first, waiting, waited, repeats)

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


def _first(curve: Curve, load: Load, let_in: int, at_once: int) -> float:
    """Seconds until the first token, on average over all users.

    The cache may hold fewer than the engine lets in. Fewer at a time is never taken for sooner than more at a time
    would be, so a longer prompt, which leaves room for fewer, is no gain either.
    """
    answer, users = load.answer, load.users
    behind = (answer - 1) * curve.at(let_in).pace(answer)
    first = 0.0
    for count in range(at_once, let_in + 1):
        rounds = sum(user // count for user in range(users)) / users
        point = curve.at(count)
        first = max(first, point.first + rounds * point.whole(answer))
    # One after the other is what can always be done.
    return max(min(first, users * curve.at(1).whole(answer) - behind), curve.at(let_in).first)


def _where(known: Known, load: Load, setup: Setup) -> tuple[Kind, str, bool]:
    """The kind of the figures, their source as a sentence's part, and whether they lie between two measured ones."""
    if known.source is None or known.ratio is None:
        return known.kind, known.words, False
    source, users = known.source, known.source.users(setup)
    of = f", with {source.of}" if source.of else ""
    if source.covers(load, setup) and known.ratio.has_first:
        exact = load.users in users
        at = f"{load.users} user{'s' * (load.users > 1)}" if exact else f"between {_around(users, load.users)}"
        said = f" and {source.answer:,} tokens out" if source.answer and source.answer != load.answer else ""
        return known.kind, f"{source.name}, {at}{said}{of}", not exact
    lengths = f"{source.prompt:,} in" if source.prompt else "short prompts"
    return "computed", f"from {source.name}, measured with {lengths} and {_span(users)}{of}", False


def _around(users: list[int], count: int) -> str:
    below, above = max(each for each in users if each < count), min(each for each in users if each > count)
    return f"{below} and {above} users"


def _span(users: list[int]) -> str:
    return f"{users[0]} to {users[-1]} users" if len(users) > 1 else f"{users[0]} user{'s' * (users[0] > 1)}"


def _repeats(known: Known, load: Load, setup: Setup) -> Mapping[str, tuple[float, ...]]:
    source = known.source
    if source is None or not source.covers(load, setup):
        return {}
    return {
        str(figure): rows[load.users]
        for (of, figure), rows in source.rows.items()
        if of == setup and load.users in rows
    }
