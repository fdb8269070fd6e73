"""The recipe against the image that will run it, on the head: what it understands is asked once and kept there."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from pyinfra import host, logger, state
from pyinfra.api.command import PyinfraCommand
from pyinfra.api.exceptions import DeployError
from pyinfra.api.host import Host

from operations import looking
from operations.image import without_tag
from operations.patience import fail
from operations.plan import holes
from operations.plan.engines import ENGINES
from operations.plan.files import as_is
from operations.plan.images import Image, engine_image
from operations.plan.knobs import Knobs
from operations.plan.lint.judge import judge_of, lint
from operations.plan.plan import Plan
from operations.plan.recipe import Model, Recipe
from operations.plan.refusal import Finding, as_table
from operations.plan.served_model import ServedModel
from operations.remote import ask, ask_or_none

#: What images have told before the preflight, which has judged by it, by their local names. One run in a process.
_known: dict[str, dict[str, Any]] = {}


def remember(image: Image, told: dict[str, Any]) -> None:
    """What an image has told; nothing: it was not asked yet."""
    if told:
        _known[image.local] = told


def errors(remarks: Any, name: str) -> list[Finding]:
    """What stops a deploy, among remarks."""
    return [Finding(name, remark.problem, remark.remedy) for remark in remarks if remark.error]


@looking.step
def understood(plan: Plan) -> Iterator[PyinfraCommand]:
    """On the head: every word of the recipe against the image, unless the preflight knew already what it says."""
    if not plan.of(host.name).node.is_head:
        host.noop("the head's image is asked")
        return
    found = []
    for model in (each.engines[0] for each in plan.models):
        can_be_asked = ENGINES[model.recipe.engine].VOCABULARY and model.image.local not in _known
        told = vocabulary(host, model.image, model.recipe) if can_be_asked and state.is_executing else {}
        if "error" in told:
            host.log(f"{told.pop('error')}; the recipe is judged by what is known of its version")
        remarks = lint(model.recipe, model.knobs, image=told, nodes=len(model.nodes)) if told else []
        found += errors(remarks, model.recipe.name)
    if found:
        yield fail(f"the image does not understand the recipe; the engines were not touched:{as_table(tuple(found))}")
        return
    host.noop("the image knows every word of the recipe")


def vocabulary(where: Host, image: Image, recipe: Recipe) -> dict[str, Any]:
    """What the image understands, asked on a node that has it; the key `error` where it can't be asked."""
    return ask(where, "vocabulary", names=[image.local], script=script(recipe.engine))


def asked_first(where: Host, image: Image, recipe: Recipe) -> dict[str, Any]:
    """The same before anything is obtained, where the image is there, under Tandem's name or that of its source; empty:
    it is not, or can't be asked. What mods will be put onto is not asked: it lacks what they bring.
    """
    source = [] if image.mods or image.kind != "registry" else [without_tag(image.reference)]
    told = ask_or_none(where, "vocabulary", names=[image.local, *source], script=script(recipe.engine)) or {}
    if "error" in told:
        logger.warning(f"{where.name}: {told['error']}; the recipe is judged by what is known of its version")
        return {}
    return told


def script(engine: str) -> str:
    """The reader of an image's sources, whole: it comes in on standard input."""
    lines = ["import sys, types"]
    *parts, main = ENGINES[engine].VOCABULARY
    for name in parts:
        lines.append(f"sys.modules[{name!r}] = module = types.ModuleType({name!r})")
        lines.append(f"exec({as_is(f'engine/{name}.py')!r}, vars(module))")
    return "\n".join([*lines, f"exec({as_is(f'engine/{main}.py')!r}, {{'__name__': '__main__'}})"])


def judge(recipe: Recipe, knobs: Knobs, survey: dict[str, Any], nodes: int) -> list[Any]:
    """Every remark on a recipe, by what is known of the image and the model before they are obtained."""
    # A node without sudo or python3 has told that and nothing else.
    states = survey.get("state", {}).get("models", {})
    if recipe.needs.gpu:
        model, *further = (_weighed(each, states.get(each.key, {})) for each in recipe.models)
        recipe = recipe.model_copy(update={"model": model, "further_models": tuple(further)})
    told = survey.get("vocabulary", {}).get(engine_image(recipe, knobs).local)
    return lint(recipe, knobs, image=told or None, nodes=nodes, mtp=survey.get("mtp", {}).get(recipe.model.key))


def _weighed(model: Model, state: dict[str, Any]) -> Model:
    """With the weights that lie in the store, where the recipe does not say them."""
    weights = sum(each["size"] for name, each in state.get("files", {}).items() if name.endswith(".safetensors"))
    return model.model_copy(update={"weights_gib": weights / 2**30}) if weights and not model.weights_gib else model


def known_holes(recipe: Recipe, knobs: Knobs, surveys: Mapping[str, dict[str, Any]]) -> holes.Verdict:
    """The verdict on what the plan would run, by what the nodes have told in their surveys, the head first."""
    head: dict[str, Any] = next(iter(surveys.values()), {})
    told = head.get("inside", {})
    inside = {role: told[local] for role, local in holes.roles(recipe, knobs).items() if told.get(local)}
    nodes = {name: survey.get("software", {}) for name, survey in surveys.items()}
    return holes.judge(recipe, knobs, inside=holes.by_role(inside), nodes=nodes)


def checked(where: Host, plan: Plan) -> list[str]:
    """What `make check` says when nothing stands in the way; raises DeployError when the image says otherwise."""
    return [line for model in plan.models for line in _checked(where, model.engines[0], len(model.engines))]


def _checked(where: Host, model: ServedModel, times: int) -> list[str]:
    """Of one engine of a model, which has as many groups of nodes."""
    recipe, knobs, runs, told = model.recipe, model.knobs, ENGINES[model.recipe.engine], {}
    if runs.VOCABULARY:
        told = _known.get(model.image.local) or vocabulary(where, model.image, recipe)
    remarks = lint(recipe, knobs, image=told or None, nodes=len(model.nodes))
    if found := errors(remarks, recipe.name):
        raise DeployError(f"the image does not understand the recipe:{as_table(tuple(found))}")
    by = judge_of(recipe, knobs)
    if told.get("version"):
        by = f"the image itself ({runs.TITLE} {told['version']})"
    over = f"{len(model.nodes)} node(s)" if times == 1 else f"{times} groups of {len(model.nodes)} nodes"
    lines = [f"{recipe.name}, {model.topology} on {over}: ok by {by}"]
    return [*lines, *(f"remark: {remark}" for remark in remarks)]
