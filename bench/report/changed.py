"""Two runs of the same profile and recipe: what changed by more than the noise of both."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from statistics import fmean

from bench.noise import compare
from bench.report.series import FIGURES, PROXY, Measured, Rows
from operations.plan.config.refusal import Finding, Refusal


@dataclass(frozen=True)
class Change:
    """One figure of one setup and number of users. Shares of what it was."""

    rows: Rows
    setup: str
    users: int
    was: float
    now: float
    relative: float
    noise: float

    @property
    def is_sure(self) -> bool:
        """Beyond noise."""
        return abs(self.relative) > self.noise

    @property
    def is_better(self) -> bool:
        """As the figure counts."""
        return (self.relative < 0) == self.rows.figure.less_is_better


def same_kind(now: Measured, before: Measured) -> None:
    """Raises Refusal for runs that can't be compared."""
    for name, what, remedy in (
        ("profile", "profile", "measure both with the same PROFILE"),
        ("recipe", "recipe", "compare runs of one recipe; `tandem advise` looks over recipes' loads"),
    ):
        one, other = getattr(now.run, name), getattr(before.run, name)
        if one != other:
            problem = f"is a run of another {what}: {other!r}, and {now.path} is of {one!r}"
            raise Refusal(Finding(str(before.path), problem, remedy))
    if not any(True for _ in _pairs(now, before)):
        problem = f"has no setup and number of users that {now.path} has too"
        raise Refusal(Finding(str(before.path), problem, "measure both with the same TOPOLOGIES and USERS"))


def changes(now: Measured, before: Measured) -> list[Change]:
    """Every figure that both have, in the order of figures, setups and users."""
    found = []
    for rows, was, setup, users in _pairs(now, before):
        new, old = rows.values[users][setup], was.values[users][setup]
        difference = compare(new, old, rows.usual)
        if difference:
            found.append(Change(rows, setup, users, fmean(old), fmean(new), difference.relative, difference.noise))
    order = list(FIGURES)
    return sorted(
        found, key=lambda each: (order.index(each.rows.figure.name), each.rows.setups.index(each.setup), each.users)
    )


def headline(found: Sequence[Change], before: str) -> str:
    """What became of the figure that a run is judged by, over all setups and numbers of users; `before`: the other
    run's name. Empty where neither the whole answer nor decode is in both.
    """
    through = [each for each in found if each.rows.target == PROXY and not each.rows.prompt]
    judged = next((of for name in ("whole", "decode") if (of := _of(through, name))), [])
    if not judged:
        return ""
    is_whole = judged[0].rows.figure.less_is_better
    what = "Whole answers" if is_whole else "Tokens of answers a second"
    better = [each for each in judged if each.is_sure and each.is_better]
    worse = [each for each in judged if each.is_sure and not each.is_better]
    parts = [
        f"{_span(of)} {word} in {len(of)}"
        for of, word in (
            (better, "sooner" if is_whole else "more"),
            (worse, "later" if is_whole else "fewer"),
        )
        if of
    ]
    said = ", ".join(parts) or "no difference beyond noise in any"
    return f"{what} against {before}: {said} of {len(judged)} comparisons."


def _of(found: Sequence[Change], name: str) -> list[Change]:
    return [each for each in found if each.rows.figure.name == name]


def _span(found: Sequence[Change]) -> str:
    shares = [abs(each.relative) for each in found]
    low, high = f"{min(shares):.0%}", f"{max(shares):.0%}"
    return low if low == high else f"{low} to {high}"


def _pairs(now: Measured, before: Measured) -> list[tuple[Rows, Rows, str, int]]:
    old = {(rows.figure.name, rows.target, rows.prompt): rows for rows in before.rows if rows.figure.is_judged}
    return [
        (rows, was, setup, users)
        for rows in now.rows
        if (was := old.get((rows.figure.name, rows.target, rows.prompt)))
        for users in rows.users
        for setup in rows.values[users]
        if setup in was.values.get(users, {})
    ]
