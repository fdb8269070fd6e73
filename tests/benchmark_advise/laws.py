"""What holds on every machine, whatever a figure was made from."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from bench.advise.options import Outlook, Question

#: Seconds are computed, not measured: what is nearer than this is the same.
NEAR = 1e-6


@dataclass(frozen=True)
class Case:
    """An outlook, and the same setup's with one user, with fewer users and with a shorter prompt."""

    question: Question
    seen: Outlook
    alone: Outlook
    fewer: Outlook
    shorter: Outlook


def _first_is_sooner(case: Case) -> bool:
    return case.seen.first <= (case.seen.whole or 0.0) * (1 + NEAR)


def _whole_is_the_sum(case: Case) -> bool:
    seen = case.seen
    assert seen.whole and seen.pace is not None
    return abs(seen.first + (seen.load.answer - 1) * seen.pace - seen.whole) <= NEAR * seen.whole


def _no_faster(of: Callable[[Case], Outlook]) -> Callable[[Case], bool]:
    """A user's speed, the first token and the whole answer against those of a lighter load."""

    def holds(case: Case) -> bool:
        light = of(case)
        if light.point is None or case.seen.pace is None or light.pace is None or light.whole is None:
            return True
        less = 1 - NEAR
        return (
            case.seen.pace >= light.pace * less
            and case.seen.first >= light.first * less
            and (case.seen.whole or 0.0) >= light.whole * less
        )

    return holds


def _all_get_no_less(case: Case) -> bool:
    if case.alone.together is None or case.seen.together is None:
        return True
    return case.seen.together >= case.alone.together * (1 - 1e-3)


def _within_bandwidth(case: Case) -> bool:
    estimated, seen = case.question.evidence.estimated, case.seen
    if estimated is None or not estimated.knows(seen.setup) or seen.point is None:
        return True
    return seen.point.step >= estimated.least(seen.setup, seen.load)(1)[1] * (1 - NEAR)


def _within_compute(case: Case) -> bool:
    estimated, seen = case.question.evidence.estimated, case.seen
    if estimated is None or not estimated.knows(seen.setup) or seen.point is None:
        return True
    prefilled = seen.point.first + seen.point.gap
    return prefilled >= estimated.least(seen.setup, seen.load)(seen.at_once)[0] * (1 - NEAR)


#: In words -> whether it holds.
LAWS: Mapping[str, Callable[[Case], bool]] = {
    "the first token is not later than the whole answer": _first_is_sooner,
    "the whole answer is the first token and all others": _whole_is_the_sum,
    "nobody is served sooner with more users": _no_faster(lambda case: case.fewer),
    "nobody is served sooner than a user alone": _no_faster(lambda case: case.alone),
    "nobody is served sooner with a longer prompt": _no_faster(lambda case: case.shorter),
    "all together get no less than one alone": _all_get_no_less,
    "decode reads at most what the memory gives": _within_bandwidth,
    "prefill computes at most what the GPU can": _within_compute,
}
