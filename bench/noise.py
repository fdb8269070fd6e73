"""When a difference is one, and when it is a tie.

Two setups were measured several times each. Their difference is that of the means. What it could be by chance is its
95% interval by Welch's t-test, which asks for no equal spread and takes few repeats for what they are. A difference
within it is a tie, and so is one below 1% whatever the repeats say: no owner notices it, and a bench repeated on
another day differs by more. Where there is one repeat alone its spread is not known; 5% is taken for it.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from statistics import fmean, variance

#: Shares of the mean: what nobody notices, and what is taken for the spread of a single measurement.
LEAST, UNKNOWN = 0.01, 0.05
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
    """Of one against another, as shares of the other's mean: 0.1 is 10% more. `noise`: what chance alone may make."""

    relative: float
    noise: float

    @property
    def tie(self) -> bool:
        """Whether it is smaller than the noise."""
        return abs(self.relative) <= self.noise


def spread(values: Sequence[float]) -> Spread | None:
    """None of nothing."""
    return Spread(fmean(values), min(values), max(values), len(values)) if values else None


def compare(one: Sequence[float], other: Sequence[float]) -> Difference | None:
    """Repeats of the same figure of two setups; None where one has none, or the other's mean is 0."""
    if not one or not other or not fmean(other):
        return None
    base = abs(fmean(other))
    relative = (fmean(one) - fmean(other)) / base
    return Difference(relative, max(_interval(one, other) / base, LEAST))


def _interval(one: Sequence[float], other: Sequence[float]) -> float:
    """Half of the 95% interval of the difference of two means."""
    errors = [(_variance(values) / len(values), max(len(values) - 1, 1)) for values in (one, other)]
    total = sum(error for error, _ in errors)
    if not total:
        return 0.0
    freedom = total**2 / sum(error**2 / degrees for error, degrees in errors)
    # A single measurement's spread is taken, not measured: it gets no punishment for few repeats.
    t = _T_MANY if min(len(one), len(other)) == 1 else _t(freedom)
    return t * math.sqrt(total)


def _variance(values: Sequence[float]) -> float:
    return variance(values) if len(values) > 1 else (UNKNOWN * values[0]) ** 2


def _t(freedom: float) -> float:
    """Of the next smaller number of degrees that the table has: rather a tie too many."""
    return (
        next((t for degrees, t in sorted(_T.items(), reverse=True) if degrees <= freedom), _T[1])
        if freedom < 120
        else _T_MANY
    )
