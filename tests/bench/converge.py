"""What a deploy with nothing to change costs, against an empty deploy.py on the same hosts, round by round."""

from __future__ import annotations

import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from rich.console import Console
from rich.table import Table

from tests.lab import cluster

ROUNDS = int(os.environ.get("ROUNDS", "7"))
RESULT = cluster.ROOT / "bench-converge.json"


def seconds(deploy_file: str) -> float:
    """Wall time of one `pyinfra -y`; raises when it fails."""
    start = time.monotonic()
    argv = [sys.executable, "-m", "pyinfra", "-y", cluster.INVENTORY, deploy_file]
    subprocess.run(argv, cwd=cluster.ROOT, check=True, capture_output=True)
    return time.monotonic() - start


def main() -> int:
    """Measure, print a table, write bench-converge.json; exit 1 when the second run changes something."""
    first = cluster.deploy()
    if first.code != 0:
        print(first.text, file=sys.stderr)
        return 1
    second = cluster.deploy()
    if second.changes:
        print(f"the second run changed {second.changes} things:\n{second.text}", file=sys.stderr)
        return 1
    with tempfile.NamedTemporaryFile("w", suffix=".py", dir=cluster.ROOT) as empty:
        runs: dict[str, list[float]] = {"empty deploy.py": [], "nothing to change": []}
        for _ in range(ROUNDS):
            runs["empty deploy.py"].append(seconds(Path(empty.name).name))
            runs["nothing to change"].append(seconds("deploy.py"))
    medians = {name: statistics.median(times) for name, times in runs.items()}
    ratio = medians["nothing to change"] / medians["empty deploy.py"]
    table = Table("", "median s", "min s", "max s", box=None)
    for name, times in runs.items():
        table.add_row(name, f"{medians[name]:.2f}", f"{min(times):.2f}", f"{max(times):.2f}")
    Console().print(table)
    print(f"ratio {ratio:.2f} over {ROUNDS} rounds, two nodes, every operation `No changes`")
    RESULT.write_text(
        json.dumps({"rounds": ROUNDS, "seconds": runs, "median": medians, "ratio": ratio}, indent=1) + "\n"
    )
    return 0


if __name__ == "__main__":
    sys.exit(main())
