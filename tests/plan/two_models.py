"""A plan of two models on two nodes: a cluster, and a small one beside its first rank."""

from __future__ import annotations

from typing import Any

from operations.plan.plan import Plan, make_plan
from operations.plan.wanted import wanted
from tests.plan.samples import knob_data, nodes

RECIPE = "lab-tiny-llama"
#: By the owner's names; clients call the first one `nemotron`.
TWO: dict[str, dict[str, Any]] = {
    "chat": {
        "recipe": RECIPE,
        "topology": "cluster",
        "executor": "mp",
        "nodes": ["spark-1", "spark-2"],
        "served_name": "nemotron",
    },
    "coder": {"recipe": RECIPE, "topology": "solo", "nodes": ["spark-1"], "served_name": "coder"},
}


def two_models(**changes: Any) -> Plan:
    of = wanted(knob_data(models={name: words | {"memory_gib": 8} for name, words in TWO.items()}, **changes))
    return make_plan(of, nodes(2, of.knobs))
