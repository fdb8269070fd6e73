"""What a deploy with nothing to change costs with three models on four nodes, against one model's replicas on them."""

from __future__ import annotations

import json
import sys
from typing import Any

from tests.bench.converge import ROUNDS, seconds, show, until_nothing_changes
from tests.lab import cluster
from tests.lab.three_models import ALL, BESIDE

SETS: dict[str, dict[str, Any]] = {
    "one model": {"topology": "replicas", **BESIDE},
    "three models": {"models": json.dumps(ALL), **BESIDE},
}


def main() -> int:
    """Measure, print a table, write bench-converge-models.json; exit 1 when a deploy fails or the second changes
    something. One set after the other: to change them takes minutes.
    """
    runs: dict[str, list[float]] = {name: [] for name in SETS}
    try:
        for name, knobs in SETS.items():
            until_nothing_changes(**knobs)
            runs[name] = [seconds("deploy.py", **knobs) for _ in range(ROUNDS)]
    except RuntimeError as problem:
        print(problem, file=sys.stderr)
        return 1
    show(runs, "one model", "four", cluster.ROOT / "bench-converge-models.json")
    return 0


if __name__ == "__main__":
    sys.exit(main())
