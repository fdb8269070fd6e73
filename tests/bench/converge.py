"""What a deploy with nothing to change costs, against an empty deploy.py on the same hosts, round by round."""

from __future__ import annotations

import json
import os
import resource
import statistics
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

from rich.console import Console
from rich.table import Table

from tests.lab import cluster

ROUNDS = int(os.environ.get("ROUNDS", "7"))


class Took(NamedTuple):
    """Seconds of one deploy: by the clock, and of CPU here. The nodes' own CPU is not in the second."""

    clock: float
    cpu: float


def took(deploy_file: str, **knobs: Any) -> Took:
    """Of one `pyinfra -y`; raises when it fails, or changes something."""
    start, spent = time.monotonic(), _cpu_s()
    done = cluster.deploy(file=deploy_file, **knobs)
    lasted = Took(time.monotonic() - start, _cpu_s() - spent)
    if done.code != 0:
        raise RuntimeError(done.text)
    if done.changes:
        raise RuntimeError(f"{deploy_file} changed {done.changes} things:\n{done.text}")
    return lasted


def _cpu_s() -> float:
    """CPU seconds of all that we started and that has ended."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def until_nothing_changes(**knobs: Any) -> None:
    """Deploy; raises when it fails."""
    done = cluster.deploy(**knobs)
    if done.code != 0:
        raise RuntimeError(done.text)


def compare(measure: Callable[[], dict[str, list[Took]]], against: str, nodes: str, result: Path) -> int:
    """Two ways, round by round: print a table and how many times the other way takes what `against` does, write them
    to a file. 1 when a deploy fails, or changes something where nothing is to change.

    The ratio is the median of the rounds' own: a machine that grows slower is slower for both.
    """
    try:
        runs = measure()
    except RuntimeError as problem:
        print(problem, file=sys.stderr)
        return 1
    [other] = [name for name in runs if name != against]
    table = Table("", "median s", "min s", "max s", "median CPU s", box=None)
    for name, times in runs.items():
        clock = [each.clock for each in times]
        figures = [statistics.median(clock), min(clock), max(clock), statistics.median(each.cpu for each in times)]
        table.add_row(name, *(f"{each:.2f}" for each in figures))
    Console().print(table)
    rounds = [
        (one.clock / base.clock, one.cpu / base.cpu) for one, base in zip(runs[other], runs[against], strict=True)
    ]
    ratio, cpu_ratio = (statistics.median(each) for each in zip(*rounds, strict=True))
    print(f"ratio {ratio:.2f} by the clock, {cpu_ratio:.2f} by CPU: the median of {ROUNDS} rounds")
    print(f"{nodes} nodes, every operation `No changes`")
    kept = {name: [each._asdict() for each in times] for name, times in runs.items()}
    document = {"rounds": ROUNDS, "seconds": kept, "ratio": ratio, "cpu_ratio": cpu_ratio}
    result.write_text(json.dumps(document, indent=1) + "\n")
    return 0


def _measure() -> dict[str, list[Took]]:
    until_nothing_changes()
    runs: dict[str, list[Took]] = {"empty deploy.py": [], "nothing to change": []}
    with tempfile.NamedTemporaryFile("w", suffix=".py", dir=cluster.ROOT) as empty:
        for _ in range(ROUNDS):
            runs["empty deploy.py"].append(took(Path(empty.name).name))
            runs["nothing to change"].append(took("deploy.py"))
    return runs


if __name__ == "__main__":
    sys.exit(compare(_measure, "empty deploy.py", "two", cluster.ROOT / "bench-converge.json"))
