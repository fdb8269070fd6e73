"""What the owner wants, as read: the knobs of the inventory's group data, and the recipe that they name."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from operations.plan.formats import load_recipe
from operations.plan.knobs import Knobs, read_knobs
from operations.plan.recipe import Recipe
from operations.plan.refusal import Finding, Refusal


def wanted(data: Mapping[str, Any]) -> tuple[Knobs, Recipe]:
    """From a host's data: knobs and recipe, whose models have the knobs' revisions where it names none.

    Raises Refusal with every fault.
    """
    knobs = read_knobs(data)
    recipe = load_recipe(knobs.recipe)
    revisions = {each.repo: ("model_revisions", knobs.model_revisions.get(each.repo, "")) for each in recipe.models}
    if knobs.model_revision:
        revisions[recipe.model.repo] = ("model_revision", knobs.model_revision)
    findings = [
        Finding(
            "data",
            f"{knob}={revision!r}: the recipe {recipe.name} has its own of {each.repo}, {each.revision}",
            f"clear {knob} in group_data/all.py",
        )
        for each in recipe.models
        for knob, revision in [revisions[each.repo]]
        if revision and each.revision not in (None, revision)
    ]
    if findings:
        raise Refusal(*findings)
    model, *further = (
        each.model_copy(update={"revision": each.revision or revisions[each.repo][1] or None}) for each in recipe.models
    )
    return knobs, recipe.model_copy(update={"model": model, "further_models": tuple(further)})
