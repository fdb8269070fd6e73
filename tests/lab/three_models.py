"""Three models on four nodes of the lab: a cluster of two, replicas on the other two, and a small one beside the first
rank.
"""

from __future__ import annotations

from typing import Any

_TINY = "lab-tiny-llama"
CHAT = {"recipe": _TINY, "topology": "cluster", "nodes": "spark-1,spark-2", "served_name": "chat", "memory_gib": 3}
CODER = {"recipe": _TINY, "topology": "replicas", "nodes": "spark-3,spark-4", "served_name": "coder", "memory_gib": 3}
SMALL = {"recipe": _TINY, "topology": "solo", "nodes": "spark-1", "served_name": "small", "memory_gib": 3}
ALL: dict[str, Any] = {"chat": CHAT, "coder": CODER, "small": SMALL}
#: Five engines on a machine that may have two cores.
BESIDE: dict[str, Any] = {"canary_deadline": 10.0, "executor": "mp"}
