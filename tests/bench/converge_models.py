"""What a deploy with nothing to change costs with three models on four nodes, against one model's replicas on them."""

from __future__ import annotations

import json
import sys
from typing import Any

from tests.bench.converge import ROUNDS, Took, compare, took, until_nothing_changes
from tests.lab import cluster
from tests.lab.three_models import ALL, BESIDE

SETS: dict[str, dict[str, Any]] = {
    "one model": {"topology": "replicas", **BESIDE},
    "three models": {"models": json.dumps(ALL), **BESIDE},
}


def _measure() -> dict[str, list[Took]]:
    """One set after the other: to change them takes minutes."""
    runs = {}
    for name, knobs in SETS.items():
        until_nothing_changes(**knobs)
        runs[name] = [took("deploy.py", **knobs) for _ in range(ROUNDS)]
    return runs


if __name__ == "__main__":
    sys.exit(compare(_measure, "one model", "four", cluster.ROOT / "bench-models.json"))
