"""`make bench-watching`: what monitoring costs: seconds of a deploy without changes, CPU and memory of its units.

Two nodes in replicas. `off` and `prometheus` take turns, so that a machine that grows slower is slower for both.
"""

from __future__ import annotations

import json
import os
import statistics
import sys
import tempfile
import time
from collections.abc import Mapping
from pathlib import Path

from rich.console import Console
from rich.table import Table

from operations.paths import ALERTMANAGER, EXPORTER, PAGE, PROMETHEUS
from tests.chaos import client
from tests.e2e.watched import asked, bring_programs, take_programs_away
from tests.lab import chat, cluster
from tests.lab.cluster import HEAD, WORKER, on
from tests.lab.settings import LabNode

#: Rounds of both, and seconds for which units are looked at.
PAIRS, LOOK_S = int(os.environ.get("ROUNDS", "5")), float(os.environ.get("SECONDS", "60"))
#: Seconds for which a page that is open asks again.
PAGE_EVERY_S = 5.0
WAYS = ("off", "prometheus")
UNITS = {HEAD: (EXPORTER, PAGE, PROMETHEUS, ALERTMANAGER), WORKER: (EXPORTER, PAGE)}
#: Bytes that Prometheus' own documentation gives a sample in its blocks.
SAMPLE_BYTES = 2
#: As operations/plan/services/prometheus.py has it.
SCRAPE_S = 15
RESULT = cluster.ROOT / "bench-watching.json"


def deployed(way: str) -> float:
    """Seconds of a deploy that changes nothing; raises AssertionError where it does."""
    first = cluster.deploy(topology="replicas", monitoring=way)
    assert first.code == 0, first.text[-3000:]
    start = time.monotonic()
    again = cluster.deploy(topology="replicas", monitoring=way)
    took = time.monotonic() - start
    assert (again.code, again.changes) == (0, 0), again.text[-3000:]
    return took


def spent(node: LabNode) -> dict[str, tuple[float, int]]:
    """CPU seconds so far, and bytes of its program in memory, by unit: systemd counts memory on some nodes alone."""
    found = {}
    for unit in UNITS[node]:
        said = on(node, f"systemctl show {unit} --property=CPUUsageNSec,MainPID")
        words = dict(line.split("=", 1) for line in said.splitlines())
        resident = on(node, f"grep VmRSS /proc/{words['MainPID']}/status").split()[1]
        found[unit] = (int(words["CPUUsageNSec"]) / 1e9, int(resident) * 1024)
    return found


def looked_at(page_is_open: bool, at: Mapping[str, str]) -> dict[str, dict[str, float]]:
    """CPU in thousandths of a core and MiB of each unit, over LOOK_S."""
    before, start = {node: spent(node) for node in UNITS}, time.monotonic()
    while time.monotonic() - start < LOOK_S:
        if page_is_open:
            url = at["OPENAI_BASE_URL"].removesuffix("/v1")
            on(HEAD, f"curl -s -o /dev/null -H 'Authorization: Bearer {at['OPENAI_API_KEY']}' {url}/tandem/state.json")
        time.sleep(PAGE_EVERY_S)
    lasted = time.monotonic() - start
    found = {}
    for node in UNITS:
        for unit, (cpu, memory) in spent(node).items():
            per_mille = (cpu - before[node][unit][0]) / lasted * 1000
            found[f"{node.name} {unit}"] = {"per mille of a core": per_mille, "MiB": memory / 2**20}
    return found


def month() -> float:
    """Bytes in thirty days, by the samples of a scrape."""
    (count,) = asked("sum(scrape_samples_scraped)")
    return float(count["value"][1]) / SCRAPE_S * 86400 * 30 * SAMPLE_BYTES


def main() -> int:
    """Measure, print tables, write bench-watching.json."""
    with tempfile.TemporaryDirectory() as folder:
        bring_programs(Path(folder))
    times: dict[str, list[float]] = {way: [] for way in WAYS}
    try:
        for _ in range(PAIRS):
            for way in WAYS:
                times[way].append(deployed(way))
        time.sleep(LOOK_S)
        at = chat.endpoint()
        costs = {"nobody asks": looked_at(False, at)}
        with client.load(at, client.learn(at)):
            costs["eight clients, a page open"] = looked_at(True, at)
        kept = month()
    finally:
        cluster.deploy(topology="replicas", monitoring="off")
        take_programs_away()
    medians = {way: statistics.median(found) for way, found in times.items()}
    table = Table("a deploy without changes", "median s", "min", "max", box=None)
    for way, found in times.items():
        table.add_row(f"monitoring={way}", f"{medians[way]:.2f}", f"{min(found):.2f}", f"{max(found):.2f}")
    Console(width=120).print(table)
    print(f"{(medians['prometheus'] / medians['off'] - 1) * 100:+.1f} % over {PAIRS} pairs\n")
    for when, rows in costs.items():
        table = Table(when, "thousandths of a core", "MiB", box=None)
        for name, row in rows.items():
            table.add_row(name, f"{row['per mille of a core']:.1f}", f"{row['MiB']:.0f}")
        Console(width=120).print(table)
    print(f"kept in a month, at {SAMPLE_BYTES} bytes a sample: {kept / 1e6:.0f} MB")
    RESULT.write_text(json.dumps({"seconds": times, "costs": costs, "month": kept}, indent=1) + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
