"""`{config.NAME}` and `{launch.NAME}` in sparkrun's `env` (core/env_templates.py of sparkrun 0.4.2)."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

from operations.plan.cluster.addresses import model_path
from operations.plan.cluster.environment import CACHE_MOUNT
from operations.plan.cluster.nodes import Node
from operations.plan.config.refusal import Remark
from operations.plan.recipes.recipe import Recipe
from operations.wire import Json

_TEMPLATE = re.compile(r"(?<![${])\{(config|launch)\.([A-Za-z_]\w*)\}")
#: Those of a launch that a plan knows; it has no name for a launch (`cluster_id`).
_KNOWN = ("model_path", "model_revision", "num_nodes", "node_rank", "node_host", "runtime_cache_dir")


def filled(env: Mapping[str, Any], defaults: Mapping[str, Any], remarks: list[Remark]) -> Json:
    """The variables with `defaults` filled in; of a launch's own, what no plan knows is an error."""
    found: Json = {}
    for name, value in env.items():
        found[name] = value
        if not isinstance(value, str) or not _TEMPLATE.search(value):
            continue
        found[name] = _TEMPLATE.sub(
            lambda each: str(defaults[each[2]]) if each[1] == "config" and each[2] in defaults else each[0], value
        )
        for each in _TEMPLATE.finditer(found[name]):
            if each[1] == "launch" and each[2] in _KNOWN:
                continue
            problem = f"env `{name}` has `{each[0]}`, which sparkrun fills in at its launch"
            remarks.append(Remark(True, problem, "write its value"))
    return found


def launched(recipe: Recipe, node: Node, nodes: Sequence[Node]) -> dict[str, str]:
    """The variables of a recipe on one of the nodes that serve together, with what a launch knows filled in.

    sparkrun's word for a node is the name by which it reaches it; here it is its address on the fabric.
    """
    if recipe.format != "sparkrun":
        return dict(recipe.env)
    known = {
        "num_nodes": str(len(nodes)),
        "node_rank": str(node.place if len(nodes) > 1 else 0),
        "node_host": node.fabric,
        "model_path": model_path(recipe),
        "model_revision": recipe.model.revision or "",
        "runtime_cache_dir": CACHE_MOUNT,
    }
    return {
        name: _TEMPLATE.sub(lambda each: known.get(each[2], each[0]) if each[1] == "launch" else each[0], value)
        for name, value in recipe.env.items()
    }
