"""What the phases compare with the plan: one look at each node, good until something is changed."""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterator
from functools import wraps
from typing import Any, Concatenate, ParamSpec

from pyinfra.api.command import PyinfraCommand
from pyinfra.api.host import Host
from pyinfra.api.operation import operation

from operations import held
from operations.plan.knobs import Knobs
from operations.plan.places import FABRIC, SECRETS, UNIT_FILES
from operations.plan.plan import Plan
from operations.plan.recipe import Recipe
from operations.plan.service import Service
from operations.remote import ask

P = ParamSpec("P")

#: Looks of this run, by node. There is one run in a process.
_looks: dict[str, dict[str, Any]] = {}


def arguments(recipe: Recipe, knobs: Knobs, archives: dict[str, str]) -> dict[str, Any]:
    """What a look needs to know; `archives`: local image name -> archive on that node, or empty."""
    return {
        "store": knobs.model_store,
        "models": [model.place for model in recipe.models],
        "archives": archives,
        "paths": [*FABRIC, *UNIT_FILES],
        "folders": list(SECRETS),
    }


def at(host: Host, plan: Plan) -> dict[str, Any]:
    """The state of a node; asked anew when something has been changed since."""
    if host.name not in _looks:
        services = plan.of(host.name).services.values()
        images = [service.image for service in services if isinstance(service, Service)]
        archives = {image.local: image.archive if host.name == plan.head.node.name else "" for image in images}
        look = arguments(plan.recipe, plan.knobs, archives)
        _looks[host.name] = ask(host, "look", **look)
    return _looks[host.name]


def remember(name: str, state: dict[str, Any]) -> None:
    """A survey has looked already."""
    _looks[name] = state


def forget() -> None:
    """Something has been changed, or somebody else was at work."""
    _looks.clear()


def step(function: Callable[Concatenate[Plan, P], Iterator[PyinfraCommand]]) -> Callable[..., Any]:
    """An operation of a phase: whatever it runs makes the looks of all nodes stale, and runs only under the lock."""

    @wraps(function)
    def run(plan: Plan, *args: P.args, **kwargs: P.kwargs) -> Generator[PyinfraCommand, None, None]:
        for command in held.guarded(function(plan, *args, **kwargs)):
            yield command
            forget()

    return operation()(run)
