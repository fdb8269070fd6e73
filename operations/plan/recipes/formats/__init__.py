"""Readers of recipes: Tandem's own, eugr/spark-vllm-docker's and sparkrun's, all into one Recipe."""

from __future__ import annotations

import os
from pathlib import Path

from operations.plan.config.refusal import Finding, Refusal, Remark, alike, typed
from operations.plan.config.secret import hidden, known
from operations.plan.recipes.bounds import Beyond, check_words
from operations.plan.recipes.formats import eugr, needs, own, sparkrun
from operations.plan.recipes.formats.document import read
from operations.plan.recipes.recipe import Recipe

FOLDER = Path(__file__).parents[4] / "files/recipes"
#: How names of the lab's own recipes begin.
LAB = "lab-"


def load_recipe(name: str, folder: Path = FOLDER) -> Recipe:
    """A recipe by its name in files/recipes, or by the path of a file; raises Refusal with every fault in it."""
    return load_file(find(name, folder))


def find(name: str, folder: Path = FOLDER) -> Path:
    """The file of a recipe; raises Refusal with the nearest name."""
    is_path = "/" in name or name.endswith((".yaml", ".yml"))
    path = Path(os.path.expanduser(name)) if is_path else folder / f"{name}.yaml"
    # Whatever lies there, `load_file` says what it is.
    if os.path.lexists(path):
        return path
    # The lab's own are no owner's choice.
    known = [each for each in stems(folder) if not each.startswith(LAB) or name.startswith("lab")]
    listing = f"the recipes are: {', '.join(known)}"
    if is_path:
        raise Refusal(
            Finding("knob", f"{typed('recipe', name)}: there is no such file here", "give the path of a file")
        )
    raise Refusal(Finding("knob", f"{typed('recipe', name)}: no such recipe", alike(name, known, listing)))


def stems(folder: Path = FOLDER) -> list[str]:
    """Names of all recipes in a folder."""
    return sorted(file.stem for file in folder.glob("*.yaml"))


def load_file(path: Path) -> Recipe:
    """A recipe from a file, in whatever format it is; raises Refusal with every fault in it, and without its secrets.

    NoRecipe is the Refusal of what does not want to be one.
    """
    document = read(path)
    reader = {"tandem": own.recipe, "eugr": eugr.recipe, "sparkrun": sparkrun.recipe}[document.format]
    secrets = known(document.data)
    try:
        recipe = reader(document)
        check_words(recipe)
        recipe = needs.complete(recipe, path.parent)
    except Refusal as refusal:
        said = ((each.where, hidden(each.problem, secrets), hidden(each.remedy, secrets)) for each in refusal.findings)
        raise Refusal(*(Finding(*each) for each in said)) from None
    except Beyond as beyond:
        raise Refusal(Finding(document.file, beyond.problem, beyond.remedy)) from None
    remarks = (
        Remark(each.error, hidden(each.problem, secrets), hidden(each.remedy, secrets)) for each in recipe.remarks
    )
    return recipe.model_copy(update={"remarks": tuple(remarks)})
