"""Where engines listen, and where models lie in their container."""

from __future__ import annotations

from operations.plan.environment import HUB
from operations.plan.knobs import Knobs
from operations.plan.nodes import Node
from operations.plan.recipe import Model, Recipe


def engine_address(knobs: Knobs, node: Node) -> str:
    """Where an engine listens: loopback when only the proxy beside it asks, else the fabric.

    An engine on the proxy's own node is an engine that no rail can take away. In a cluster rank 0 needs the rails
    anyway.
    """
    beside_the_proxy = knobs.topology == "solo" or (knobs.topology == "replicas" and node.is_head)
    return "127.0.0.1" if beside_the_proxy else node.fabric


def engine_url(knobs: Knobs, node: Node) -> str:
    """Base URL of the engine that answers on a node."""
    return f"http://{engine_address(knobs, node)}:{knobs.engine_port}"


def model_path(recipe: Recipe) -> str:
    """The served model inside the container."""
    return snapshot_path(recipe.model)


def snapshot_path(model: Model) -> str:
    """A pinned snapshot inside the container."""
    return f"{HUB}/{model.folder}/snapshots/{model.revision}"
