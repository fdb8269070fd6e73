"""How long a switch took the service away, and how much of that was the engine's own start."""

from __future__ import annotations

import time


class Stopwatch:
    """Moments of one run, in seconds on a monotonic clock."""

    def __init__(self) -> None:
        self._marks: dict[str, float] = {}

    def mark(self, event: str) -> None:
        """It happened now; a later time of the same event counts."""
        self._marks[event] = time.monotonic()

    def mark_first(self, event: str) -> None:
        """It happened now; the first time counts."""
        self._marks.setdefault(event, time.monotonic())

    def switch_report(self) -> str:
        """One sentence; empty when nothing that served was stopped and started again."""
        marks = self._marks
        if not {"stopped", "started", "answers"} <= marks.keys():
            return ""
        away = time.monotonic() - marks["stopped"]
        start = max(marks["answers"] - marks["started"], 0)
        return f"away for {away:.1f} s: {start:.1f} s were the engine's own start, {away - start:.1f} s the switch"
