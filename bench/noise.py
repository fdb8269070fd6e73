"""When a difference is one, and when it is a tie.

Two setups were measured several times each. Their difference is that of the means. What it could be by chance is its
95% interval by Welch's t-test, which asks for no equal spread and takes few repeats for what they are. A difference
within it is a tie, and so is one below 1% whatever the repeats say: no owner notices it, and a bench repeated on
another day differs by more.

Few repeats say little of their own spread. That of the whole run's other cells, each as a share of its mean, stands in
for as much as PRIOR further repeats would say. Where nothing was repeated 5% is taken for it.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from statistics import fmean, variance

#: Shares of the mean: what nobody notices, and what is taken for the spread of a single measurement.
LEAST, UNKNOWN = 0.01, 0.05
#: Degrees of freedom that the spread of a run's other cells counts for; repeats beyond which nobody goes on.
PRIOR, MOST = 4, 64
#: Two-sided 95% of Student's t by degrees of freedom.
_T = {
    1: 12.71,
    2: 4.30,
    3: 3.18,
    4: 2.78,
    5: 2.57,
    6: 2.45,
    7: 2.36,
    8: 2.31,
    9: 2.26,
    10: 2.23,
    15: 2.13,
    20: 2.09,
    30: 2.04,
    60: 2.00,
}
_T_MANY = 1.96


@dataclass(frozen=True)
class Spread:
    """Repeats of one figure."""

    mean: float
    low: float
    high: float
    repeats: int


@dataclass(frozen=True)
class Difference:
    """How one differs from another, as a share of its mean: 0.1 is 10% more. `noise`: what chance alone makes."""

    relative: float
    noise: float

    @property
    def tie(self) -> bool:
        """Whether it is smaller than the noise."""
        return abs(self.relative) <= self.noise


def spread(values: Sequence[float]) -> Spread | None:
    """None of nothing."""
    return Spread(fmean(values), min(values), max(values), len(values)) if values else None


@dataclass(frozen=True)
class Usual:
    """How much repeats of a figure differ as a rule, as a variance of shares of the mean; `freedom`: how well it is
    known, 0: not at all.
    """

    variance: float = UNKNOWN**2
    freedom: int = 0


def usual(cells: Iterable[Sequence[float]]) -> Usual:
    """Over the cells of a run that were repeated."""
    spreads, freedom = 0.0, 0
    for values in cells:
        mean = fmean(values) if values else 0.0
        if len(values) > 1 and mean:
            spreads += variance(values) / mean**2 * (len(values) - 1)
            freedom += len(values) - 1
    return Usual(spreads / freedom, freedom) if freedom else Usual()


def compare(one: Sequence[float], other: Sequence[float], of_run: Usual | None = None) -> Difference | None:
    """Repeats of the same figure of two setups; None where one has none, or the other's mean is 0."""
    if not one or not other or not fmean(other):
        return None
    base = abs(fmean(other))
    relative = (fmean(one) - fmean(other)) / base
    return Difference(relative, max(_interval(one, other, of_run or Usual()) / base, LEAST))


def more_repeats(one: Sequence[float], other: Sequence[float], of_run: Usual) -> int | None:
    """How many more of each it takes until their difference is one; 0: it is, None: not even MOST would show it, or
    nobody would notice it.
    """
    found = compare(one, other, of_run)
    if found is None or abs(found.relative) <= LEAST:
        return None
    if not found.tie:
        return 0
    have = min(len(one), len(other))
    base = abs(fmean(other))
    for repeats in range(have + 1, MOST + 1):
        total = sum(_variance(values, of_run)[0] / repeats for values in (one, other))
        freedom = 2 * (repeats - 1) + (PRIOR if of_run.freedom else 0)
        if _t(freedom) * math.sqrt(total) / base < abs(found.relative):
            return repeats - have
    return None


def _interval(one: Sequence[float], other: Sequence[float], of_run: Usual) -> float:
    """Half of the 95% interval of the difference of two means."""
    known = [(_variance(values, of_run), len(values)) for values in (one, other)]
    errors = [(spread / count, degrees) for (spread, degrees), count in known]
    total = sum(error for error, _ in errors)
    if not total:
        return 0.0
    freedom = total**2 / sum(error**2 / max(degrees, 1) for error, degrees in errors)
    # A spread that is taken and not measured gets no punishment for few repeats.
    t = _T_MANY if not all(degrees for _, degrees in errors) else _t(freedom)
    return t * math.sqrt(total)


def _variance(values: Sequence[float], of_run: Usual) -> tuple[float, int]:
    """Variance of repeats, and its degrees of freedom: their own, and the run's for what they lack."""
    own = len(values) - 1
    expected = of_run.variance * fmean(values) ** 2
    if not of_run.freedom:
        return (variance(values), own) if own else (expected, 0)
    prior = min(PRIOR, of_run.freedom)
    return (prior * expected + (own * variance(values) if own else 0.0)) / (prior + own), prior + own


def _t(freedom: float) -> float:
    """Student's t, for the next smaller degrees of freedom that the table has: rather a tie too many."""
    return (
        next((t for degrees, t in sorted(_T.items(), reverse=True) if degrees <= freedom), _T[1])
        if freedom < 120
        else _T_MANY
    )
