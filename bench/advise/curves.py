"""A setup's figures over users, which obey the laws of a queue whatever they were made from.

Rows that were measured are ratios to a base (the estimate). Between rows the ratio is interpolated, beyond them the
nearest one's is kept. Another prompt or answer takes the base of its own. What comes out is made lawful: no part falls
with more users, and so many users together never take longer than one after the other.
"""

from __future__ import annotations

import math
from bisect import bisect_left
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from statistics import fmean

from bench.advise.physics import Point

#: Users for which every curve is made; between them it is interpolated.
GRID = (1, 2, 4, 8, 16, 32, 64, 128, 256)
Ratios = Mapping[int, float]
Base = Callable[[int], Point]


@dataclass(frozen=True)
class Curve:
    """Points over users, made by `lawful`."""

    points: Mapping[int, Point]

    def at(self, users: int) -> Point:
        """Between two numbers of users on the straight line; beyond the last in proportion to it."""
        if users in self.points:
            return self.points[users]
        known = sorted(self.points)
        if users > known[-1]:
            last, more = self.points[known[-1]], users / known[-1]
            return Point(last.first * more, last.gap * more, last.step * more)
        place = bisect_left(known, users)
        below, above = known[place - 1], known[place]
        share = (users - below) / (above - below)
        low, high = self.points[below], self.points[above]
        return Point(
            low.first + share * (high.first - low.first),
            low.gap + share * (high.gap - low.gap),
            low.step + share * (high.step - low.step),
        )


def lawful(points: Mapping[int, Point]) -> Curve:
    """Measured points, corrected: more users get no faster answers, and none waits longer than one after the other."""
    found: dict[int, Point] = {}
    alone = points[min(points)]
    before = Point(0.0, 0.0, 0.0)
    for users, point in sorted(points.items()):
        at_most = users * (alone.first + alone.gap)
        prefilled = point.first + point.gap
        # What is too much is too much of both.
        share = point.gap / prefilled if prefilled else 0.0
        prefilled = max(before.first + before.gap, min(prefilled, at_most))
        gap = min(max(prefilled * share, before.gap), prefilled - before.first)
        step = max(before.step, min(point.step, users * alone.step))
        found[users] = before = Point(prefilled - gap, gap, step)
    return Curve(found)


def no_worse(one: Curve, other: Curve) -> Curve:
    """The better of two in every part: who has the other's nodes as well can do what it does."""
    points = {}
    for users in sorted({*one.points, *other.points}):
        mine, theirs = one.at(users), other.at(users)
        points[users] = Point(*map(min, (mine.first, mine.gap, mine.step), (theirs.first, theirs.gap, theirs.step)))
    return Curve(points)


@dataclass(frozen=True)
class Ratio:
    """What was measured over what the base has, by users, of each part."""

    prefilled: Ratios
    first: Ratios
    step: Ratios

    @property
    def mean(self) -> tuple[float, float]:
        """The ratios of a step and of prefill, over all rows."""
        prefill = {**self.first, **self.prefilled}
        return _mean(self.step), _mean(prefill)

    @property
    def has_first(self) -> bool:
        """Whether a first token or prefill was measured."""
        return bool(self.first or self.prefilled)

    def carried(self, base: Base, least: Callable[[int], tuple[float, float]]) -> Curve:
        """The curve of another base; `least`: seconds of prefill and of a step below which nothing is."""
        users = sorted({*GRID, *self.prefilled, *self.first, *self.step})
        points = {}
        for count in users:
            at = base(count)
            read, step = least(count)
            prefilled = max((at.first + at.gap) * _between(self.prefilled or self.first, count), read)
            first = min(at.first * _between(self.first or self.prefilled, count), prefilled)
            points[count] = Point(first, prefilled - first, max(at.step * _between(self.step, count), step))
        return lawful(points)


def ratio(rows: Mapping[str, Mapping[int, float]], base: Base, prompt: int, answer: int) -> Ratio:
    """Rows over users: `prefill`, `decode`, `ttft`, `whole`, each where it is known. `base`: at their lengths."""
    read: dict[int, float] = {}
    first: dict[int, float] = {}
    for users, value in rows.get("ttft", {}).items():
        first[users] = value / base(users).first
    for users, value in rows.get("prefill", {}).items():
        at = base(users)
        read[users] = users * prompt / value / (at.first + at.gap)
    step: dict[int, float] = {}
    for users in {*rows.get("decode", {}), *rows.get("whole", {})}:
        at = base(users)
        prefilled = (at.first + at.gap) * _between(read or first, users)
        begins = min(at.first * _between(first or read, users), prefilled)
        if users in rows.get("whole", {}):
            seconds = rows["whole"][users] - max(prefilled, begins)
        else:
            seconds = users * (answer - 1) / rows["decode"][users] - (prefilled - _earliest(begins, prefilled, users))
        step[users] = max(seconds, 0.0) / max(answer - 1, 1) / at.step
    return Ratio(read, first, step)


def _earliest(first: float, prefilled: float, users: int) -> float:
    """When the first of all has its first token, as Point.decode has it."""
    return min(max(2 * first - prefilled, prefilled / users), first)


def _between(ratios: Ratios, users: int) -> float:
    """Over the logarithm of users; 1 of nothing."""
    if not ratios:
        return 1.0
    known = sorted(ratios)
    place = bisect_left(known, users)
    if place == len(known) or place == 0 or known[place] == users:
        return ratios[known[min(place, len(known) - 1)]]
    below, above = known[place - 1], known[place]
    share = math.log(users / below) / math.log(above / below)
    return ratios[below] ** (1 - share) * ratios[above] ** share if ratios[below] and ratios[above] else ratios[above]


def _mean(ratios: Ratios) -> float:
    values = [math.log(value) for value in ratios.values() if value > 0]
    return math.exp(fmean(values)) if values else 1.0
