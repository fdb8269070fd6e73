"""What is declared for the time of a pull: the models of a recipe, or a repository of the Hub, and where they belong.

Nothing of it serves. So what it needs of a node is disk alone.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from operations.plan.declared import Declared, DeclaredModel
from operations.plan.recipes.formats import load_recipe
from operations.plan.recipes.recipe import Model, Needs, Proof
from operations.plan.wanted import wanted
from operations.wire import Json

#: What an owner's knobs say of the declared model alone.
_OF_ANOTHER: Json = {"models": {}, "model_revision": "", "model_from": "hub", "fallback": "off"}
#: What a recipe says of an engine's command.
_WORDS: Json = {
    **dict.fromkeys(("flags", "shell", "further_models", "remarks", "known", "figures"), ()),
    **{name: {} for name in ("env", "exports", "attached")},
    "proof": Proof(),
    "min_nodes": 1,
    "pipeline_parallel": 1,
}


def pulled(asked: Json, data: Mapping[str, Any], given: Mapping[str, Any]) -> tuple[Declared, str]:
    """The declared plan with what is asked for in it, and the name of the model that has it.

    `asked`: the `name` of a recipe or of a declared model; or a repository, see `pull_subject`. `data`: a host's;
    `given`: what was said of it for this run. Raises Refusal.
    """
    if "repo" in asked:
        of = wanted({**data, "fallback": "off"})
        return replace(of, models=(_of_hub(of.first, asked), *of.models[1:])), of.first.name
    name = str(asked["name"])
    if name in (data.get("models") or {}):
        of = wanted(data)
        return replace(of, models=tuple(_on_disk(each) if each.name == name else each for each in of.models)), name
    if name != data.get("recipe") or data.get("models"):
        data = {**data, **_OF_ANOTHER, "recipe": name, **given}
        data["topology"] = _topology(name, data, given)
    of = wanted(data)
    return replace(of, models=(_on_disk(of.first),)), ""


def _topology(recipe: str, data: Mapping[str, Any], given: Mapping[str, Any]) -> str:
    """The declared one where the recipe runs in it: it says which nodes get the files."""
    runs_in = load_recipe(recipe).topologies
    declared = str(data.get("topology") or "cluster")
    if "topology" in given or declared in runs_in:
        return declared
    return next(each for each in ("replicas", "cluster", "solo") if each in runs_in)


def _on_disk(of: DeclaredModel) -> DeclaredModel:
    needs = Needs(gpu=False, model_disk_gib=of.recipe.needs.model_disk_gib)
    return replace(of, recipe=of.recipe.model_copy(update={"needs": needs}))


def _of_hub(of: DeclaredModel, asked: Json) -> DeclaredModel:
    """A repository in the place of the model; of the recipe's words about another one none is left."""
    model = Model(repo=asked["repo"], revision=asked["revision"], kind=asked["kind"], files=tuple(asked["files"]))
    needs = Needs(gpu=False, model_disk_gib=asked["gib"])
    recipe = of.recipe.model_copy(update={**_WORDS, "model": model, "needs": needs})
    return replace(of, recipe=recipe, knobs=of.knobs.model_copy(update={"model_from": "hub"}))
