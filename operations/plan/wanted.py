"""What the owner wants, as read: the knobs of the inventory's group data, and the recipe that they name."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from operations.plan.formats import load_recipe
from operations.plan.knobs import Knobs, read_knobs
from operations.plan.recipe import Recipe
from operations.plan.refusal import Finding, Refusal


def wanted(data: Mapping[str, Any]) -> tuple[Knobs, Recipe]:
    """From a host's data: knobs and recipe, which has the knob's revision when it names none.

    Raises Refusal with every fault.
    """
    knobs = read_knobs(data)
    recipe = load_recipe(knobs.recipe)
    if not knobs.model_revision:
        return knobs, recipe
    if recipe.model.revision not in (None, knobs.model_revision):
        problem = (
            f"model_revision={knobs.model_revision!r}: the recipe {recipe.name} has its own, {recipe.model.revision}"
        )
        raise Refusal(Finding("data", problem, "clear model_revision in group_data/all.py"))
    model = recipe.model.model_copy(update={"revision": knobs.model_revision})
    return knobs, recipe.model_copy(update={"model": model})
