"""When a setup is known well enough."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from bench.figures import figures
from bench.noise import Usual, compare, usual
from bench.records import Request, Step

#: A mean that is known to this share (95%) is known well enough; rounds that are made whatever it is.
ENOUGH, ROUNDS = 0.03, 2


def is_enough(steps: Iterable[Step], requests: Mapping[str, list[Request]]) -> bool:
    """Whether the whole answer is known to ENOUGH for each number of users, prompt and target of a setup."""
    cells: dict[tuple[str, int, str], list[float]] = {}
    for step in steps:
        found = figures(step, requests[step.name], None).e2e_s
        if found and not step.is_known:
            cells.setdefault((step.target, step.users, step.which), []).append(found.p50)
    of_run = usual(cells.values())
    return all(len(values) >= ROUNDS and _noise(values, of_run) <= ENOUGH for values in cells.values()) and bool(cells)


def _noise(values: list[float], of_run: Usual) -> float:
    """The error of a mean; of a difference between two it is the root of two times as much."""
    found = compare(values, values, of_run)
    return found.noise / 2**0.5 if found else 1.0
