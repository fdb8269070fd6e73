"""Where engines listen, and where models lie in their container."""

from __future__ import annotations

from urllib.parse import urlsplit

from operations.plan.cluster.environment import HUB
from operations.plan.cluster.nodes import Node
from operations.plan.config.knobs import Knobs
from operations.plan.recipes.recipe import Model, Recipe


def engine_url(knobs: Knobs, node: Node) -> str:
    """Base URL of the engine that answers on a node: on the fabric, or on loopback where the plan has one node alone.

    The proxy of its own node reaches it there with the cable out as well: a rail keeps its address without a carrier,
    and the firewall holds it where the netdev goes with the cable (operations/plan/services/firewall.py).
    """
    return f"http://{node.fabric}:{knobs.engine_port}"


def load_url(knobs: Knobs, node: Node, unit: str) -> str:
    """Where a node is asked to load the model of an engine's unit on it (files/ondemand/ondemand.py). `knobs`: those
    that are not one model's.
    """
    return f"http://{node.fabric}:{knobs.port('on_demand')}/{unit}"


def is_local(url: str) -> bool:
    """Whether only its own node can reach it."""
    return urlsplit(url).hostname == "127.0.0.1"


def model_path(recipe: Recipe) -> str:
    """The served model inside the container."""
    return snapshot_path(recipe.model)


def snapshot_path(model: Model) -> str:
    """A pinned snapshot inside the container."""
    return f"{HUB}/{model.folder}/snapshots/{model.revision}"
