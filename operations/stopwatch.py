"""How long a switch took the service away, and how much of that was the engine's own start."""

from __future__ import annotations

import time

#: Seconds on a monotonic clock, by event. One process is one run.
_marks: dict[str, float] = {}


def mark(event: str) -> None:
    """It happened now; a later time of the same event counts."""
    _marks[event] = time.monotonic()


def mark_first(event: str) -> None:
    """It happened now; the first time counts."""
    _marks.setdefault(event, time.monotonic())


def switch_report() -> str:
    """One sentence; empty when nothing that served was stopped and started again."""
    if not {"stopped", "started", "answers"} <= _marks.keys():
        return ""
    away = time.monotonic() - _marks["stopped"]
    start = max(_marks["answers"] - _marks["started"], 0)
    return f"away for {away:.0f} s: {start:.0f} s were the engine's own start, {away - start:.0f} s the switch"
