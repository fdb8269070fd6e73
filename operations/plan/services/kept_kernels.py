"""Where what an engine compiles is kept: by its image, its models' revisions, its flags and its ranks.

The node itself checks the processor and the image's content at each start (files/engine/made_for.py).
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator
from dataclasses import replace

from operations.plan.cluster.nodes import Node
from operations.plan.cluster.served_model import ServedModel
from operations.plan.engines import ENGINES, kept


def place_of(model: ServedModel) -> str:
    """TAG/KEY of an engine's kernels, the same on each of its nodes. `model`: as one engine has it."""
    recipe, knobs = model.recipe, model.knobs
    told = recipe.model_dump(
        mode="json",
        include={"engine", "program", "flags", "env", "exports", "shell", "hooks", "start_mods", "config", "attached"},
    )
    told |= {"models": [each.at for each in recipe.models]}
    # An engine by itself is the same whatever stands beside it.
    told |= {"ranks": len(model.nodes), "stages": knobs.stages, "by": knobs.executor} if is_cluster(model) else {}
    key = hashlib.sha256(json.dumps(told, sort_keys=True).encode()).hexdigest()[:12]
    return f"{model.image.local.rpartition(':')[2]}/{key}"


def is_cluster(model: ServedModel) -> bool:
    """Whether its engine is of several ranks."""
    return model.knobs.of_an_engine.topology == "cluster"


def alone(model: ServedModel, node: Node) -> ServedModel:
    """The engine that a node of a cluster runs in the place of its rank when it serves alone (fallback.py)."""
    return replace(model, knobs=model.knobs.model_copy(update={"topology": "replicas"}), nodes=(node,))


def paths_of(model: ServedModel) -> list[str]:
    """What of it can be handed on (kept.handed)."""
    recipe = model.recipe
    return kept.handed(ENGINES[recipe.engine].CACHES, recipe.engine_version or "", is_cluster=is_cluster(model))


def by_name(model: ServedModel) -> list[str]:
    """What of it another plan may begin with (kept.by_name)."""
    return kept.by_name(ENGINES[model.recipe.engine].CACHES)


def engines_on(model: ServedModel, node: Node) -> Iterator[ServedModel]:
    """The engines that a node may start for a model: its own, and the one that serves alone."""
    yield model
    if model.knobs.falls_back:
        yield alone(model, node)
