"""`make recipes-table`: docs/recipes.md, made of the recipe files. A test compares it with them."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Sequence
from itertools import groupby
from pathlib import Path

from operations.plan.config.spark import FLOOR_GIB, IDLE_GIB, SPARK_GIB
from operations.plan.recipes.formats import FOLDER, load_recipe
from operations.plan.recipes.recipe import Figure, Recipe
from operations.plan.services.demand import demand, free_gib

PAGE = Path(__file__).parents[2] / "docs/recipes.md"
HEAD = """# The recipes

Made of `files/recipes` by `make recipes-table`. Figures are others', tokens a second of all answers together; letters
are those of [the sources](sources.md). What was seen where: [the status](index.md#status-what-has-been-seen-and-where).
Their commands are compared with their sources word by word (`tests/plan/test_golden.py`), their words with the release
in their image.

"""
COLUMNS = ("recipe", "what for", "release", "runs in", "GiB free", "published", "known against the release")
FOOT = f"""
`GiB free`: what a start demands of each node, as its engine counts it, with what the guard wants left
([several models](models.md#memory)). On a Spark with
nothing but its system, {IDLE_GIB[0]:g} to {IDLE_GIB[1]:g} of {SPARK_GIB[1]:g} GiB are free [Y].

What is known was looked for on 2026-11-23 in public lists [Q]; an empty field says that nothing was found there.
`nothing` under `published`: the source has no figure.
"""


def page(recipes: Iterable[Recipe]) -> str:
    """The whole file."""
    rows = [COLUMNS, ("---",) * len(COLUMNS), *map(row, recipes)]
    return HEAD + "".join(f"| {' | '.join(cells)} |\n" for cells in rows) + FOOT


def row(recipe: Recipe) -> Sequence[str]:
    """A recipe's cells."""
    runs = [f"{name} of {recipe.min_nodes}" if recipe.min_nodes > 2 else name for name in recipe.topologies]
    release = f"{recipe.engine} {recipe.engine_version}"
    return (
        f"`{recipe.name}`",
        recipe.description + (f"; of before: today `{recipe.newer}`" if recipe.newer else ""),
        release + (", built" if recipe.image.startswith("build:") else ", with a mod" if recipe.mods else ""),
        ", ".join(runs),
        "; ".join(free(recipe)),
        "; ".join(published(recipe.figures)) or "nothing",
        "<br>".join(recipe.known),
    )


def free(recipe: Recipe) -> list[str]:
    """`solo, replicas: 67`: GiB of each Spark that have to be free before a start, the most first."""
    wanted: dict[str, list[str]] = {}
    for topology in recipe.topologies:
        parts = max(recipe.min_nodes, 2) if topology == "cluster" else 1
        gib = f"{free_gib(recipe, demand(recipe, topology, parts), max(SPARK_GIB), FLOOR_GIB):.0f}"
        wanted.setdefault(gib, []).append(topology)
    order = sorted(wanted, key=int, reverse=True)
    return order if len(order) == 1 else [f"{', '.join(wanted[gib])}: {gib}" for gib in order]


def published(figures: Sequence[Figure]) -> list[str]:
    """`solo: 23 for one user, 57 for 4 [N]`, a topology and source at a time."""
    told = []
    for (topology, source), group in groupby(figures, key=lambda each: (each.topology, each.source)):
        values = [f"{each.tokens_per_second:g} for {each.users if each.users > 1 else 'one user'}" for each in group]
        told.append(f"{topology}: {', '.join(values)} [{source}]")
    return told


def shipped() -> list[Recipe]:
    """All that come with Tandem and are for Sparks, by name."""
    found = [load_recipe(file.stem) for file in sorted(FOLDER.glob("*.yaml"))]
    return [recipe for recipe in found if recipe.needs.gpu]


if __name__ == "__main__":
    sys.stdout.write(page(shipped()))
