"""Where engines listen, and where models lie in their container."""

from __future__ import annotations

from operations.plan.environment import HUB
from operations.plan.knobs import Knobs
from operations.plan.nodes import Node
from operations.plan.recipe import Model, Recipe


def engine_address(knobs: Knobs, node: Node) -> str:
    """Where an engine listens: on loopback where one proxy alone asks it (solo), else on the fabric.

    The proxy of its own node reaches it there with the cable out as well: a rail keeps its address without a carrier.
    """
    return "127.0.0.1" if knobs.topology == "solo" else node.fabric


def engine_url(knobs: Knobs, node: Node) -> str:
    """Base URL of the engine that answers on a node."""
    return f"http://{engine_address(knobs, node)}:{knobs.engine_port}"


def model_path(recipe: Recipe) -> str:
    """The served model inside the container."""
    return snapshot_path(recipe.model)


def snapshot_path(model: Model) -> str:
    """A pinned snapshot inside the container."""
    return f"{HUB}/{model.folder}/snapshots/{model.revision}"
