"""What the advice has against a plan. A deploy asks it of a plan that is new; for any other it is not even loaded."""

from __future__ import annotations

from operations.plan.config.knobs import Knobs
from operations.plan.recipes.recipe import Recipe


def against(recipe: Recipe, knobs: Knobs, nodes: int) -> str:
    """One sentence, or nothing (bench/advise/remark.py)."""
    from bench.advise import remark

    return remark.against(recipe, knobs, nodes)
