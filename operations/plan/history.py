"""A plan as it is remembered when it has served, and read back for a rollback."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from typing import Any

from pydantic import ValidationError

from operations.plan.images import needed
from operations.plan.knobs import Knobs
from operations.plan.recipe import Recipe
from operations.plan.refusal import Finding, Refusal

#: Knobs that say nothing about what is served.
_NOT_SERVED = ("rollback",)


def record(knobs: Knobs, recipe: Recipe) -> dict[str, Any]:
    """What a node keeps: `id` is a hash over knobs and recipe, the recipe is kept whole, not by its name."""
    told = {"knobs": knobs.model_dump(mode="json"), "recipe": recipe.model_dump(mode="json")}
    served = {**told, "knobs": {name: value for name, value in told["knobs"].items() if name not in _NOT_SERVED}}
    digest = hashlib.sha256(json.dumps(served, sort_keys=True).encode()).hexdigest()[:16]
    return {"id": digest, **told, "images": needed(recipe, knobs)}


def previous(plans: Sequence[Mapping[str, Any]], declared: str) -> Mapping[str, Any] | None:
    """The plan to go back to: the newest that is not the declared one (an id); None: there is none."""
    return next((plan for plan in reversed(plans) if plan["id"] != declared), None)


def title(plan: Mapping[str, Any]) -> str:
    """A remembered plan, for people."""
    knobs = plan["knobs"]
    return f"{knobs['recipe']}, {knobs['topology']}, which served on {plan.get('when', '?')}"


def restore(plan: Mapping[str, Any], declared: Mapping[str, Any]) -> tuple[Knobs, Recipe]:
    """Knobs and recipe of a remembered plan; knobs that it does not know are the declared ones.

    Raises Refusal for a plan that this Tandem can't read any more.
    """
    names = Knobs.model_fields
    values = {**declared, **plan["knobs"]}
    try:
        knobs = Knobs(**{name: value for name, value in values.items() if name in names})
        return knobs, Recipe.model_validate(plan["recipe"])
    except ValidationError as error:
        fault = error.errors()[0]
        problem = f"the plan {title(plan)} can't be read: {'.'.join(map(str, fault['loc']))}: {fault['msg']}"
        raise Refusal(
            Finding("rollback", problem, "declare in group_data/all.py what you want, `make apply`")
        ) from None
