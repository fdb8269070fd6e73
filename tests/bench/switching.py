"""What a switch of topology costs those who use the service: on the lab, each under eight clients that stream."""

from __future__ import annotations

import json
import os
import re
import sys
import time
from dataclasses import asdict, dataclass
from itertools import pairwise
from typing import Any

from rich.console import Console
from rich.table import Table

from tests.chaos import client
from tests.chaos.scene import Scene
from tests.lab import cluster

#: Each way from one topology to another once; it ends where it begins.
ORDER = os.environ.get("ORDER", "solo replicas cluster solo cluster replicas solo").split()
#: Seconds of load before and behind a switch.
CALM_S = 10
#: The last line of a switch that stopped what served (operations/runner/stopwatch.py).
AWAY = re.compile(r"the service was away for ([\d.]+) s: ([\d.]+) s were the engine's own start")


@dataclass(frozen=True)
class Switched:
    """One switch: what became of the clients' requests, and times in seconds. `gap_s`: the longest time in which no
    answer was complete. Where an engine answered all the time, `away_s` and `start_s` are 0.
    """

    way: str
    sent: int
    answered: int
    turned_away: int
    failed: int
    wrong: int
    took_s: float
    gap_s: float
    away_s: float
    start_s: float

    @property
    def beyond_s(self) -> float:
        """What the switch took the service away beyond the engine's own start."""
        return self.away_s - self.start_s


def switch(scene: Scene, before: str, topology: str) -> Switched:
    """Deploy another topology under load; raises RuntimeError when that fails."""
    with client.load(scene.at, scene.expected) as seen:
        time.sleep(CALM_S)
        began = time.monotonic()
        text = deployed(topology=topology)
        took_s = time.monotonic() - began
        time.sleep(CALM_S)
    away = AWAY.search(text)
    away_s, start_s = (float(away[1]), float(away[2])) if away else (0.0, 0.0)
    counts = (seen.sent, seen.answered, seen.turned_away, seen.failed.total(), seen.wrong.total())
    return Switched(f"{before} → {topology}", *counts, took_s, seen.gap, away_s, start_s)


def deployed(**knobs: Any) -> str:
    """What a deploy says."""
    done = cluster.deploy(executor="mp", **knobs)
    if done.code != 0:
        raise RuntimeError(done.text)
    return done.text


def main() -> int:
    """Switch all the ways, and print a table; 1 when a deploy fails."""
    try:
        deployed(topology=ORDER[0])
        scene = Scene(ORDER[0], "mp").look()
        switches = [switch(scene, *ways) for ways in pairwise(ORDER)]
    except RuntimeError as problem:
        print(problem, file=sys.stderr)
        return 1
    names = (
        "",
        "sent",
        "answered",
        "told to come back",
        "failed",
        "wrong",
        "took s",
        "away s",
        "own start s",
        "beyond s",
    )
    table = Table(*names, box=None)
    for each in switches:
        counts = (each.sent, each.answered, each.turned_away, each.failed, each.wrong)
        times = (each.took_s, each.away_s, each.start_s, each.beyond_s)
        table.add_row(each.way, *map(str, counts), *(f"{time_s:.1f}" for time_s in times))
    Console(width=120).print(table)
    kept = [{**asdict(each), "beyond_s": each.beyond_s} for each in switches]
    (cluster.ROOT / "bench-switch.json").write_text(json.dumps(kept, indent=1) + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
