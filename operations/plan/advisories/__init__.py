"""Known holes: what runs, held against what is known, and whether this deployment can be reached by it.

Pure and offline: the list is in the repository (files/holes), a deploy asks nobody.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from operations.plan.advisories import reach
from operations.plan.advisories.advisory import CRITICAL, Advisory, by_package, normal
from operations.plan.advisories.parts import Inside, Part, every_part, roles
from operations.plan.config.knobs import Knobs
from operations.plan.config.refusal import Finding
from operations.plan.recipes.recipe import Recipe

__all__ = ["CRITICAL", "Hole", "Verdict", "by_role", "judge", "refusals", "roles", "stale_in_all", "stale_lines"]


@dataclass(frozen=True)
class Hole:
    """One advisory that a part is affected by. `accepted`: the owner has said so in `accept_risk`."""

    part: Part
    advisory: Advisory
    reachable: bool
    why: str
    accepted: bool

    @property
    def score(self) -> float:
        return self.advisory.score or 0.0

    @property
    def is_critical(self) -> bool:
        """Whether it can be reached, is critical, and nobody has accepted it."""
        return self.reachable and not self.accepted and self.score >= CRITICAL

    @property
    def rating(self) -> str:
        """The score; of a mere word at least that much; `?`: nobody has rated it."""
        if self.advisory.score is None:
            return "?"
        return f"{self.score:.1f}" + ("" if self.advisory.is_exact else "+")

    @property
    def fixed(self) -> str:
        """The release that mends it, as far as it is known."""
        if found := self.advisory.fixed(self.part.package, self.part.version):
            return found
        last = self.advisory.last_affected(self.part.package)
        return f"after {last}" if last else "not known"

    @property
    def remedy(self) -> str:
        """What closes the hole, as a phrase with its commands. For the engine's image that is another recipe, for the
        proxy's and the controller a pin to raise, for a node an upgrade.
        """
        newer = f"{self.part.title} {self.fixed}" + ("" if "after" in self.fixed else " or newer")
        if self.fixed == "not known":
            newer = f"a newer {self.part.title}"
        if self.part.where == "engine":
            return f"a recipe with {newer}"
        if self.part.where == "proxy":
            return f"{newer}: raise it in files/images/proxy/requirements.in, `make lock`"
        if self.part.where == "controller":
            return f"{newer}: raise it in pyproject.toml, `make lock`"
        return f"{newer}: sudo apt update && sudo apt full-upgrade on {self.part.where}"


@dataclass(frozen=True)
class Verdict:
    """Everything about one plan: `holes` worst first, `unknown` parts whose version nobody says, and the names in
    `accept_risk` that nothing here has.
    """

    holes: tuple[Hole, ...]
    unknown: tuple[Part, ...]
    stale: tuple[str, ...]

    @property
    def critical(self) -> tuple[Hole, ...]:
        return tuple(hole for hole in self.holes if hole.is_critical)


def judge(
    recipe: Recipe, knobs: Knobs, *, inside: Inside | None = None, nodes: Mapping[str, Mapping[str, str]] | None = None
) -> Verdict:
    """The verdict on a plan. `inside`: packages that images told, by role; `nodes`: Docker and the like, by node."""
    every = every_part(recipe, knobs, inside or {}, nodes or {})
    holes = [hole for part in every for hole in _of(part, recipe, knobs)]
    named = {name for hole in holes for name in hole.advisory.names}
    unknown = tuple(part for part in every if not part.version)
    # What a part of unknown version has can't be told: its names are not stale.
    possible = {name for part in unknown for each in by_package().get(part.package, ()) for name in each.names}
    stale = tuple(name for name in knobs.accept_risk if name not in named | possible)
    return Verdict(tuple(sorted(holes, key=_worst_first)), unknown, stale)


def by_role(told: Mapping[str, Mapping[str, str]]) -> Inside:
    """What images told, by role, with the names of their packages in one spelling."""
    return {role: {normal(name): version for name, version in found.items()} for role, found in told.items()}


def refusals(verdict: Verdict) -> list[Finding]:
    """One line for each hole that wants the owner's word."""
    return [
        Finding(
            hole.part.where,
            f"{hole.part.title} {hole.part.version} has {hole.advisory.id} ({hole.rating}): {hole.advisory.summary}; "
            f"{hole.why} can use it",
            f'{hole.remedy}; or accept_risk = ["{hole.advisory.id}"] in group_data/all.py',
        )
        for hole in verdict.critical
    ]


def stale_in_all(verdicts: Sequence[Verdict]) -> tuple[str, ...]:
    """Names in `accept_risk` that no model has any more: the owner's word is the same for all of them."""
    first, *others = verdicts
    return tuple(name for name in first.stale if all(name in each.stale for each in others))


def stale_lines(names: Sequence[str]) -> list[str]:
    """What is said of accepted names that nothing has any more."""
    return [f"accept_risk: nothing here has {name} any more; take it out of group_data/all.py" for name in names]


def _of(part: Part, recipe: Recipe, knobs: Knobs) -> Iterable[Hole]:
    for advisory in by_package().get(part.package, ()):
        if part.version and advisory.affects(part.package, part.version):
            found = reach.judge(advisory.id, reach.Situation(recipe, knobs, part.version))
            accepted = bool(advisory.names & set(knobs.accept_risk))
            yield Hole(part, advisory, found.possible, found.why, accepted)


def _worst_first(hole: Hole) -> tuple[bool, float, str, str]:
    return not hole.reachable, -hole.score, hole.part.package, hole.advisory.id
