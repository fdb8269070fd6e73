"""The recipe of each model against the image that will run it, on the head."""

from __future__ import annotations

from collections.abc import Iterator

from pyinfra import host, state
from pyinfra.api.command import PyinfraCommand
from pyinfra.api.exceptions import DeployError
from pyinfra.api.host import Host

from operations.plan.cluster.served_model import ServedModel
from operations.plan.config.refusal import as_table
from operations.plan.engines import ENGINES
from operations.plan.recipes.judge import judge_of, lint
from operations.runner import recipe_lint
from operations.runner.patience import fail
from operations.runner.run import Run, step
from operations.wire.model import Vocabulary


@step
def understood(run: Run) -> Iterator[PyinfraCommand]:
    """On the head: every word of the recipe against the image, unless the preflight knew already what it says."""
    if not run.plan.of(host.name).node.is_head:
        host.noop("the head's image is asked")
        return
    found = []
    for model in (each.engines[0] for each in run.plan.models):
        can_be_asked = ENGINES[model.recipe.engine].VOCABULARY and model.image.local not in run.vocabularies
        is_asked = can_be_asked and state.is_executing
        told: Vocabulary = recipe_lint.vocabulary(host, model.image, model.recipe) if is_asked else {}
        if "error" in told:
            host.log(f"{told.pop('error')}; the recipe is judged by what is known of its version")
        remarks = lint(model.recipe, model.knobs, image=told, nodes=len(model.nodes)) if told else []
        found += recipe_lint.errors(remarks, model.recipe.name)
    if found:
        yield fail(f"the image does not understand the recipe; the engines were not touched:{as_table(tuple(found))}")
        return
    host.noop("the image knows every word of the recipe")


def checked(run: Run, where: Host) -> list[str]:
    """What `tandem check` says when nothing stands in the way; raises DeployError when the image says otherwise."""
    return [line for model in run.plan.models for line in _checked(run, where, model.engines[0], len(model.engines))]


def _checked(run: Run, where: Host, model: ServedModel, times: int) -> list[str]:
    """What `tandem check` says of one engine of a model that has `times` groups of nodes."""
    recipe, knobs, runs = model.recipe, model.knobs, ENGINES[model.recipe.engine]
    told: Vocabulary = {}
    if runs.VOCABULARY:
        told = run.vocabularies.get(model.image.local) or recipe_lint.vocabulary(where, model.image, recipe)
    remarks = lint(recipe, knobs, image=told or None, nodes=len(model.nodes))
    if found := recipe_lint.errors(remarks, recipe.name):
        raise DeployError(f"the image does not understand the recipe:{as_table(tuple(found))}")
    by = judge_of(recipe, knobs)
    if told.get("version"):
        by = f"the image itself ({runs.TITLE} {told['version']})"
    over = f"{len(model.nodes)} node(s)" if times == 1 else f"{times} groups of {len(model.nodes)} nodes"
    lines = [f"{recipe.name}, {model.topology} on {over}: ok by {by}"]
    return [*lines, *(f"remark: {remark}" for remark in remarks)]
