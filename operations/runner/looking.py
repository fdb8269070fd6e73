"""What the steps compare with the plan: one look at each node, good until something is changed."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from pyinfra.api.host import Host

from operations.node.look import look as node_look
from operations.paths import FABRIC, SECRETS, unit_file
from operations.plan.cluster.served_model import unit_of
from operations.plan.config.knobs import Knobs
from operations.plan.plan import Plan
from operations.plan.recipes.images import Image
from operations.plan.recipes.recipe import Recipe
from operations.plan.services import registry
from operations.plan.services.service import Service
from operations.runner.remote import ask
from operations.wire.look import Look, LookArguments


class Named(Protocol):
    """A model, declared or planned."""

    @property
    def name(self) -> str: ...

    @property
    def recipe(self) -> Recipe: ...


def arguments(knobs: Knobs, models: Sequence[Named], archives: dict[str, str]) -> LookArguments:
    """What a look needs to know; `models`: those with a part on that node; `archives`: local image name -> archive on
    it, or empty.
    """
    places = {each.key: each.place for model in models for each in model.recipe.models}
    units = registry.to_remove()
    return {
        "store": knobs.model_store,
        "models": places,
        "archives": archives,
        "paths": [*FABRIC, *map(unit_file, units)],
        "folders": list(SECRETS),
        "units": list(units),
        "engines": [unit_of(each.name) for each in models],
    }


def images_at(plan: Plan, name: str) -> list[Image]:
    """The images that a node is to have: those of its services, and on the head all that others get from there."""
    nodes = plan.nodes if name == plan.head.node.name else [plan.of(name)]
    found = [service.image for node in nodes for service in node.services.values() if isinstance(service, Service)]
    return list({image.local: image for image in found}.values())


class Looks:
    """What one run has seen, by node."""

    def __init__(self) -> None:
        self._by_node: dict[str, Look] = {}
        #: By node what its engines' starts have taken, as it was seen last: spec -> seconds of the longest.
        self.starts: dict[str, dict[str, float]] = {}

    def at(self, host: Host, plan: Plan) -> Look:
        """The state of a node; asked anew when something has been changed since."""
        if host.name not in self._by_node:
            is_head = host.name == plan.head.node.name
            archives = {image.local: image.archive if is_head else "" for image in images_at(plan, host.name)}
            # The head has all models' files: the others get them from there.
            models = plan.models if is_head else plan.on(host.name)
            self.remember(host.name, ask(host, node_look.main, **arguments(plan.knobs, models, archives)))
        return self._by_node[host.name]

    def remember(self, name: str, state: Look) -> None:
        """A survey has looked already."""
        self._by_node[name] = state
        self.starts[name] = state["starts"]

    def forget(self) -> None:
        """Something has been changed, or somebody else was at work."""
        self._by_node.clear()
