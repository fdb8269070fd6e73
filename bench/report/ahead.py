"""Who is ahead in a row, by how much, and where that turns."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from itertools import pairwise
from statistics import fmean

from bench.noise import Usual, compare, more_repeats
from bench.report.series import Rows


@dataclass(frozen=True)
class Ahead:
    """`names`: the best and whoever can't be told apart from it; `by`: over the next behind, as a share. `more`:
    repeats that it takes to tell the best from any other of them; None: no number of them would.
    """

    names: tuple[str, ...]
    by: float | None
    more: int | None = 0

    def __str__(self) -> str:
        return self.told(" or ".join(self.names))

    def told(self, together: str) -> str:
        """In a cell; `together`: how several are named."""
        if len(self.names) == 1:
            return self.names[0] if self.by is None else f"{self.names[0]} ({self.by:+.0%})"
        return f"{together}: no difference" if self.more is None else f"{together}: too few repeats, {self.more} more"


def ahead(row: Mapping[str, tuple[float, ...]], less_is_better: bool, of_run: Usual | None = None) -> Ahead | None:
    """Which setups are best by one figure, and by how much. `row`: setup -> the figure of each repeat, in any unit;
    `of_run`: how much repeats of this run differ.

    `by` is (best - next) / next, so it is negative where less is better. It is None where nobody is behind, or the next
    has 0. Returns None for fewer than two setups, or none with a figure.
    """
    if len(row) < 2 or not any(any(values) for values in row.values()):
        return None
    ordered = sorted(row, key=lambda name: fmean(row[name]), reverse=not less_is_better)
    best, *others = ordered
    # Who is behind somebody that is behind is behind as well, whatever his own repeats look like.
    tied = list(itertools.takewhile(lambda name: _is_tie(row[best], row[name], of_run), others))
    behind = others[len(tied) :]
    difference = compare(row[best], row[behind[0]], of_run) if behind else None
    needed = [more_repeats(row[best], row[name], of_run or Usual()) for name in tied]
    more = min((count for count in needed if count is not None), default=None) if tied else 0
    return Ahead((best, *tied), difference.relative if difference else None, more)


def _is_tie(one: tuple[float, ...], other: tuple[float, ...], of_run: Usual | None) -> bool:
    """What is 0 has no share of which another could be more."""
    found = compare(one, other, of_run)
    return one == other if found is None else found.tie


def each(rows: Rows) -> dict[int, Ahead]:
    """For every number of users that several were measured with."""
    found = {users: ahead(rows.values[users], rows.figure.less_is_better, rows.usual) for users in rows.users}
    return {users: who for users, who in found.items() if who}


def crossings(rows: Rows) -> Iterator[str]:
    """Where one setup passes another, between which numbers of users, and about where both lines meet."""
    for number, one in enumerate(rows.setups):
        for other in rows.setups[number + 1 :]:
            both = [users for users in rows.users if one in rows.values[users] and other in rows.values[users]]
            sure = [(users, sign) for users in both if (sign := _sign(rows, users, one, other))]
            for (before, was), (after, now) in pairwise(sure):
                if was != now:
                    first, second = (one, other) if (now > 0) != rows.figure.less_is_better else (other, one)
                    where = f"between {before} and {after} users"
                    yield f"{first} passes {second} {where}, at about {_meet(rows, before, after, one, other):.0f}"


def _sign(rows: Rows, users: int, one: str, other: str) -> int:
    """1: more, -1: less, 0: a tie."""
    found = compare(rows.values[users][one], rows.values[users][other], rows.usual)
    return 0 if found is None or found.tie else 1 if found.relative > 0 else -1


def _meet(rows: Rows, before: int, after: int, one: str, other: str) -> float:
    """Both lines as they are drawn: straight, over users and values as logarithms."""
    apart = [math.log(fmean(rows.values[users][one]) / fmean(rows.values[users][other])) for users in (before, after)]
    share = apart[0] / (apart[0] - apart[1])
    where: float = before * (after / before) ** share
    return where
