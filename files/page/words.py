"""Sentences about times, nodes and engines."""

from __future__ import annotations

import time
from collections.abc import Sequence

COUNTED = ("no", "one", "two", "three", "four", "five", "six", "seven", "eight")


def clock(when: float) -> str:
    """As this node's clock shows it; the day as well where it was another one."""
    then, now = time.localtime(when), time.localtime()
    return time.strftime("%H:%M" if then[:3] == now[:3] else "%Y-%m-%d %H:%M", then)


def counted(number: int) -> str:
    return COUNTED[number] if number < len(COUNTED) else str(number)


def minutes(since: float, expected: float | None) -> str:
    """How far a start is; `expected`: minutes that it takes, as the recipe says."""
    so_far = max(0, int((time.time() - since) / 60))
    if expected:
        return f"{so_far} of about {expected:g} minutes"
    return f"{so_far} minutes so far"


def share(since: float, expected: float) -> float:
    """How much of a start is over, 0 to 1; `expected`: minutes that it takes."""
    return max(0.0, min(1.0, (time.time() - since) / 60 / expected))


def joined(parts: Sequence[str]) -> str:
    return ", ".join(parts)
