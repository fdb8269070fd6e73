"""The recipe against the image that will run it, on the head: what it understands is asked once and kept there."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from pyinfra import host, state
from pyinfra.api.command import PyinfraCommand
from pyinfra.api.exceptions import DeployError
from pyinfra.api.host import Host

from operations import looking
from operations.patience import fail
from operations.plan import holes
from operations.plan.files import as_is
from operations.plan.images import Image
from operations.plan.knobs import Knobs
from operations.plan.lint import lint
from operations.plan.plan import Plan
from operations.plan.recipe import Recipe
from operations.plan.refusal import Finding, as_table
from operations.remote import ask

#: Local names of images whose vocabulary the survey found: the preflight has judged by it. One run in a process.
_known: set[str] = set()


def remember(image: Image, told: dict[str, Any]) -> None:
    """A survey has seen what an image has told before; nothing: it was not asked yet."""
    if told:
        _known.add(image.local)


def errors(remarks: Any, name: str) -> list[Finding]:
    """What stops a deploy, among remarks."""
    return [Finding(name, remark.problem, remark.remedy) for remark in remarks if remark.error]


@looking.step
def understood(plan: Plan) -> Iterator[PyinfraCommand]:
    """On the head: every word of the recipe against the image, unless the preflight knew already what it says."""
    mine = plan.of(host.name)
    if mine.engine is None or not mine.node.is_head or plan.recipe.engine != "vllm":
        host.noop("the head's image is asked")
        return
    image = mine.engine.image
    told = {} if image.local in _known or not state.is_executing else vocabulary(host, image)
    if "error" in told:
        host.log(f"{told.pop('error')}; the recipe is judged by what is known of its version")
    remarks = lint(plan.recipe, plan.knobs, image=told, nodes=len(plan.serving)) if told else []
    if found := errors(remarks, plan.recipe.name):
        yield fail(f"the image does not understand the recipe; the engines were not touched:{as_table(tuple(found))}")
        return
    host.noop("the image knows every word of the recipe")


def vocabulary(where: Host, image: Image) -> dict[str, Any]:
    """What the image understands, asked on a node that has it."""
    return ask(where, "vocabulary", local=image.local, script=as_is("engine/vocabulary.py"))


def judge(recipe: Recipe, knobs: Knobs, survey: dict[str, Any], nodes: int) -> list[Any]:
    """Every remark on a recipe, by what is known of the image and the model before they are obtained."""
    # A node without sudo or python3 has told that and nothing else.
    files = survey.get("state", {}).get("model", {}).get("files", {})
    shards = {name: each for name, each in files.items() if name.endswith(".safetensors")}
    if shards and recipe.model.weights_gib is None and recipe.needs.gpu:
        weights = sum(each["size"] for each in shards.values()) / 2**30
        model = recipe.model.model_copy(update={"weights_gib": weights})
        recipe = recipe.model_copy(update={"model": model})
    return lint(recipe, knobs, image=survey.get("vocabulary") or None, nodes=nodes, mtp=survey.get("mtp"))


def known_holes(recipe: Recipe, knobs: Knobs, surveys: Mapping[str, dict[str, Any]]) -> holes.Verdict:
    """The verdict on what the plan would run, by what the nodes have told in their surveys, the head first."""
    head: dict[str, Any] = next(iter(surveys.values()), {})
    told = head.get("inside", {})
    inside = {role: told[local] for role, local in holes.roles(recipe, knobs).items() if told.get(local)}
    nodes = {name: survey.get("software", {}) for name, survey in surveys.items()}
    return holes.judge(recipe, knobs, inside=holes.by_role(inside), nodes=nodes)


def checked(where: Host, plan: Plan) -> list[str]:
    """What `make check` says when nothing stands in the way; raises DeployError when the image says otherwise."""
    engine = plan.head.engine
    told = vocabulary(where, engine.image) if engine and plan.recipe.engine == "vllm" else {}
    remarks = lint(plan.recipe, plan.knobs, image=told or None, nodes=len(plan.serving))
    if found := errors(remarks, plan.recipe.name):
        raise DeployError(f"the image does not understand the recipe:{as_table(tuple(found))}")
    by = f"the image itself (vLLM {told['version']})" if told.get("version") else "what is known of its version"
    lines = [f"{plan.recipe.name}, {plan.knobs.topology} on {len(plan.serving)} node(s): ok by {by}"]
    return [*lines, *(f"remark: {remark}" for remark in remarks)]
