"""What the shipped recipes say of themselves, and the page that is made of it."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from operations.plan.config.knobs import Knobs
from operations.plan.recipes.lint.subject import parse
from operations.plan.recipes.picks import PICKS
from operations.plan.recipes.recipe import Recipe
from operations.verbs import recipe_table, recipe_view

ROOT = Path(__file__).parents[2]
SHIPPED = recipe_table.shipped()
#: Holes of vLLM that docs/sources.md names under [Q], by the release without them.
FIXED = {
    "CVE-2026-27893": "0.18",
    "CVE-2026-48746": "0.22",
    "CVE-2026-55574": "0.24",
    "CVE-2026-73558": "0.27",
}


def test_the_page_of_recipes_is_what_the_recipes_say() -> None:
    assert recipe_table.PAGE.read_text() == recipe_table.page(SHIPPED), "make recipes-table"


@pytest.mark.parametrize("recipe", SHIPPED, ids=lambda recipe: recipe.name)
def test_a_recipe_names_the_holes_of_its_release_and_no_others(recipe: Recipe) -> None:
    if recipe.engine != "vllm":
        assert recipe.known
        return
    version = parse(recipe.engine_version or "")
    named = re.findall(r"CVE-\d+-\d+", " ".join(recipe.known))
    assert sorted(named) == sorted(cve for cve, without in FIXED.items() if version < parse(without))


@pytest.mark.parametrize("recipe", SHIPPED, ids=lambda recipe: recipe.name)
def test_every_letter_that_a_recipe_cites_is_a_source(recipe: Recipe) -> None:
    sources = set(re.findall(r"^\| \[([A-Z]{1,2})\]", (ROOT / "docs/sources.md").read_text(), re.M))
    text = (ROOT / f"files/recipes/{recipe.name}.yaml").read_text()
    cited = set(re.findall(r"\[([A-Z]{1,2})\]", text)) | {each.source for each in recipe.figures}
    assert cited <= sources


@pytest.mark.parametrize("recipe", SHIPPED, ids=lambda recipe: recipe.name)
def test_an_image_is_named_by_its_content(recipe: Recipe) -> None:
    assert recipe.image.startswith("build:") or re.search(r"@sha256:[0-9a-f]{64}$", recipe.image)


def test_the_default_recipe_has_no_hole_that_is_known() -> None:
    assert not next(each for each in SHIPPED if each.name == Knobs().recipe).known


def test_a_recipe_of_before_names_one_that_is_shipped_and_is_marked() -> None:
    newer = {recipe.name: recipe.newer for recipe in SHIPPED if recipe.newer}
    assert newer and set(newer.values()) <= {recipe.name for recipe in SHIPPED} - newer.keys()
    assert not {pick.recipe for pick in PICKS} & newer.keys()
    one = next(recipe for recipe in SHIPPED if recipe.newer)
    assert f"of before: today `{one.newer}`" in recipe_table.row(one)[1]
    assert any(one.newer in line for line in recipe_view.one(one, []))
