"""Everything that lands on every node, as whole strings, for each topology and executor.

`GOLDEN=write pytest tests/plan/test_golden.py` writes the files anew; read the difference before you commit it.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest

from operations.plan.plan import Plan
from tests.plan.samples import plan

GOLDEN = Path(__file__).parent / "golden"

CASES: dict[str, dict[str, Any]] = {
    "solo": {"topology": "solo"},
    "solo-lone-node": {"topology": "solo", "count": 1},
    "cluster-ray": {"topology": "cluster"},
    "cluster-mp": {"topology": "cluster", "executor": "mp"},
    "cluster-ray-3-nodes": {"topology": "cluster", "count": 3},
    "replicas": {"topology": "replicas"},
    "replicas-lab": {
        "topology": "replicas",
        "recipe": "lab-tiny-llama",
        "proxy_bind": "management",
        "engine_image_from": "archive:/srv/engine.tar",
        "proxy_image_from": "archive:/srv/proxy.tar",
    },
}


def as_text(of: Plan) -> str:
    """All files of all nodes, one after the other. Scripts that are shipped as they are show by name alone."""
    parts = []
    for node in of.nodes:
        files = [node.netplan, *(file for service in node.services.values() if service for file in service.files)]
        for file in files:
            if file is not None:
                content = "(as in files/engine)\n" if file.path.endswith(".py") else file.content
                parts.append(f"#### {node.node.name} {file.path} {file.mode}\n{content}\n")
    return "".join(parts)


@pytest.mark.parametrize("case", CASES)
def test_everything_that_lands_on_the_nodes(case: str) -> None:
    rendered = as_text(plan(**CASES[case]))
    file = GOLDEN / f"{case}.txt"
    if os.environ.get("GOLDEN") == "write":
        file.write_text(rendered)
    assert rendered == file.read_text()


def test_no_golden_file_is_left_over() -> None:
    assert {file.stem for file in GOLDEN.glob("*.txt")} == set(CASES)
