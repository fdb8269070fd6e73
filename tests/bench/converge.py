"""What a deploy with nothing to change costs, against an empty deploy.py on the same hosts, round by round."""

from __future__ import annotations

import json
import os
import statistics
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table

from tests.lab import cluster

ROUNDS = int(os.environ.get("ROUNDS", "7"))


def seconds(deploy_file: str, **knobs: Any) -> float:
    """Wall time of one `pyinfra -y`; raises when it fails, or changes something."""
    start = time.monotonic()
    done = cluster.deploy(file=deploy_file, **knobs)
    took = time.monotonic() - start
    if done.code != 0:
        raise RuntimeError(done.text)
    if done.changes:
        raise RuntimeError(f"{deploy_file} changed {done.changes} things:\n{done.text}")
    return took


def until_nothing_changes(**knobs: Any) -> None:
    """Deploy; raises when it fails."""
    done = cluster.deploy(**knobs)
    if done.code != 0:
        raise RuntimeError(done.text)


def compare(measure: Callable[[], dict[str, list[float]]], against: str, nodes: str, result: Path) -> int:
    """Seconds of two ways, round by round: print a table and the ratio of the other way to `against`, write them to a
    file. 1 when a deploy fails, or changes something where nothing is to change.
    """
    try:
        runs = measure()
    except RuntimeError as problem:
        print(problem, file=sys.stderr)
        return 1
    medians = {name: statistics.median(times) for name, times in runs.items()}
    [other] = [name for name in runs if name != against]
    ratio = medians[other] / medians[against]
    table = Table("", "median s", "min s", "max s", box=None)
    for name, times in runs.items():
        table.add_row(name, f"{medians[name]:.2f}", f"{min(times):.2f}", f"{max(times):.2f}")
    Console().print(table)
    print(f"ratio {ratio:.2f} over {ROUNDS} rounds, {nodes} nodes, every operation `No changes`")
    result.write_text(
        json.dumps({"rounds": ROUNDS, "seconds": runs, "median": medians, "ratio": ratio}, indent=1) + "\n"
    )
    return 0


def _measure() -> dict[str, list[float]]:
    until_nothing_changes()
    runs: dict[str, list[float]] = {"empty deploy.py": [], "nothing to change": []}
    with tempfile.NamedTemporaryFile("w", suffix=".py", dir=cluster.ROOT) as empty:
        for _ in range(ROUNDS):
            runs["empty deploy.py"].append(seconds(Path(empty.name).name))
            runs["nothing to change"].append(seconds("deploy.py"))
    return runs


if __name__ == "__main__":
    sys.exit(compare(_measure, "empty deploy.py", "two", cluster.ROOT / "bench-converge.json"))
