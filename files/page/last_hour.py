"""What this program has seen in the last hour, in memory: a bounded ring of figures, and of looks for a minute."""

from __future__ import annotations

import threading
import time
from collections import deque
from dataclasses import dataclass
from typing import TYPE_CHECKING

from figures import SPAN_S, Readings, asked, figures
from reading import Reading

if TYPE_CHECKING:
    from operations.wire.monitoring import Panel

#: Seconds between two looks, and how many figures of them are kept: an hour.
EVERY_S, KEPT = 10.0, 360
#: In the ring beside the panels: requests a second that have had their first token.
ASKED = "asked"


@dataclass(frozen=True)
class Hour:
    """A model's mean tokens of a prompt and of an answer (0: not known), and the most who asked at once."""

    prompt: float = 0.0
    answer: float = 0.0
    most: float = 0.0


class Memory:
    """Looks of the last minute, and figures of the last hour."""

    def __init__(self, panels: list[Panel]) -> None:
        self._panels = panels
        self._lock = threading.Lock()
        self._looks: deque[dict[str, Reading]] = deque(maxlen=int(SPAN_S / EVERY_S) + 1)
        self._ring: deque[tuple[float, dict[str, dict[str, float]]]] = deque(maxlen=KEPT)
        self.began = time.time()

    def figures(self, now: Readings) -> dict[str, dict[str, float]]:
        """Panel -> series -> its value, in the panel's unit. Rates are those since the look of a minute ago, or the
        oldest one.
        """
        with self._lock:
            looks = list(self._looks)
        before: dict[str, Reading] = {}
        for look in looks:
            for node, reading in look.items():
                if node in now and 1 <= now[node].when - reading.when <= SPAN_S + EVERY_S + 1:
                    before.setdefault(node, reading)
        found = {panel["id"]: figures(panel, now, before) for panel in self._panels}
        first = next((panel for panel in self._panels if panel["id"] == "ttft_p50"), None)
        return {**found, ASKED: asked(first, now, before)} if first else found

    def add(self, now: Readings) -> None:
        """A look, which comes every EVERY_S."""
        found = self.figures(now)
        with self._lock:
            when = time.time()
            # The clock was set back: what lies ahead would be drawn twice, and no rate is one between two clocks.
            if self._ring and self._ring[-1][0] >= when:
                kept = [each for each in self._ring if each[0] < when]
                self._ring.clear()
                self._ring.extend(kept)
                self._looks.clear()
            self._looks.append(dict(now))
            self._ring.append((when, found))

    def series(self, panel: str) -> tuple[list[float], dict[str, list[float | None]]]:
        """Times, and the values of each series at them; None: it was not to be had."""
        with self._lock:
            now = time.time()
            ring = [each for each in self._ring if each[0] <= now]
        names = dict.fromkeys(name for _, found in ring for name in found.get(panel, {}))
        values = {name: [found.get(panel, {}).get(name) for _, found in ring] for name in names}
        return [round(when, 1) for when, _ in ring], values

    def hour(self, model: str) -> Hour:
        """What was asked of a model."""
        with self._lock:
            ring = [found for _, found in self._ring]
        rates = [
            {name: found.get(name, {}).get(model) for name in (ASKED, "tokens_in", "tokens_out")} for found in ring
        ]
        whole = [each for each in rates if None not in each.values()]
        sums = {name: sum(each[name] or 0.0 for each in whole) for name in (ASKED, "tokens_in", "tokens_out")}
        count = sums[ASKED]
        gauges = ("requests_running", "requests_waiting")
        most = max((sum(found.get(name, {}).get(model, 0.0) for name in gauges) for found in ring), default=0.0)
        if not count:
            return Hour(most=most)
        return Hour(sums["tokens_in"] / count, sums["tokens_out"] / count, most)
