"""Judging a recipe: by the image that will run it, which is asked once what it understands, and by what is known."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from pyinfra import logger
from pyinfra.api.host import Host

from operations.node.image import vocabulary as node_vocabulary
from operations.plan import advisories
from operations.plan.config.files import as_is
from operations.plan.config.knobs import Knobs
from operations.plan.config.refusal import Finding, Remark
from operations.plan.engines import ENGINES
from operations.plan.recipes.images import Image, engine_image, without_tag
from operations.plan.recipes.judge import lint
from operations.plan.recipes.recipe import Model, Recipe
from operations.runner.remote import ask, ask_or_none
from operations.wire.look import Survey
from operations.wire.model import ModelState, Vocabulary


def errors(remarks: Any, name: str) -> list[Finding]:
    """What stops a deploy, among remarks."""
    return [Finding(name, remark.problem, remark.remedy) for remark in remarks if remark.error]


def vocabulary(where: Host, image: Image, recipe: Recipe) -> Vocabulary:
    """What the image understands, asked on a node that has it; the key `error` where it can't be asked."""
    return ask(where, node_vocabulary.main, names=[image.local], script=script(recipe.engine))


def asked_first(where: Host, image: Image, recipe: Recipe) -> Vocabulary:
    """The same before anything is obtained, where the image is there, under Tandem's name or that of its source; empty:
    it is not, or can't be asked. What mods will be put onto is not asked: it lacks what they bring.
    """
    source = [] if image.mods or image.kind != "registry" else [without_tag(image.reference)]
    told: Vocabulary | None = ask_or_none(
        where, node_vocabulary.main, names=[image.local, *source], script=script(recipe.engine)
    )
    if told and "error" in told:
        logger.warning(f"{where.name}: {told['error']}; the recipe is judged by what is known of its version")
        return {}
    return told or {}


def script(engine: str) -> str:
    """The reader of an image's sources, whole: it comes in on standard input."""
    lines = ["import sys, types"]
    *parts, main = ENGINES[engine].VOCABULARY
    for name in parts:
        lines.append(f"sys.modules[{name!r}] = module = types.ModuleType({name!r})")
        lines.append(f"exec({as_is(f'engine/{name}.py')!r}, vars(module))")
    return "\n".join([*lines, f"exec({as_is(f'engine/{main}.py')!r}, {{'__name__': '__main__'}})"])


def judge(recipe: Recipe, knobs: Knobs, survey: Survey, nodes: int) -> list[Remark]:
    """Every remark on a recipe, by what is known of the image and the model before they are obtained."""
    # A node without sudo or python3 has told that and nothing else.
    states = survey.get("state", {}).get("models", {})
    if recipe.needs.gpu:
        model, *further = (_weighed(each, states.get(each.key)) for each in recipe.models)
        recipe = recipe.model_copy(update={"model": model, "further_models": tuple(further)})
    told = survey.get("vocabulary", {}).get(engine_image(recipe, knobs).local)
    return lint(recipe, knobs, image=told or None, nodes=nodes, mtp=survey.get("mtp", {}).get(recipe.model.key))


def _weighed(model: Model, state: ModelState | None) -> Model:
    """With the weights that lie in the store, where the recipe does not say them."""
    weights = sum(
        each["size"] for name, each in (state["files"] if state else {}).items() if name.endswith(".safetensors")
    )
    return model.model_copy(update={"weights_gib": weights / 2**30}) if weights and not model.weights_gib else model


def known_holes(recipe: Recipe, knobs: Knobs, surveys: Mapping[str, Survey]) -> advisories.Verdict:
    """The verdict on what the plan would run, by what the nodes have told in their surveys, the head first."""
    head: Survey = next(iter(surveys.values())) if surveys else {}
    told = head.get("inside", {})
    inside = {role: told[local] for role, local in advisories.roles(recipe, knobs).items() if told.get(local)}
    nodes = {name: survey.get("software", {}) for name, survey in surveys.items()}
    return advisories.judge(recipe, knobs, inside=advisories.by_role(inside), nodes=nodes)
