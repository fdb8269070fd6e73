"""What the owner wants, as read: the knobs of the inventory's group data, and the recipes that they name."""

from __future__ import annotations

import runpy
import traceback
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from operations.plan.config.knobs import Knobs, read_knobs
from operations.plan.config.refusal import Finding, Refusal
from operations.plan.declared import (
    Declared,
    DeclaredModel,
    check_names,
    declared_model,
    knobs_of_models,
    of_models,
)
from operations.plan.engines import ENGINES, loaders
from operations.plan.recipes.formats import load_recipe
from operations.plan.recipes.recipe import Recipe

#: What verbs that ask no node take for the owner's: in the current directory, or as it is shipped.
GROUP_DATA = Path("group_data/all.py")
SHIPPED = Path(__file__).parents[2] / GROUP_DATA


def group_data() -> dict[str, Any]:
    """What group_data/all.py sets; what begins with an underscore is pyinfra's. Raises Refusal where Python can't read
    it.
    """
    file = GROUP_DATA if GROUP_DATA.is_file() else SHIPPED
    try:
        found = runpy.run_path(str(file))
    except Exception as error:
        raise Refusal(unread(error, str(file))) from None
    return {key: value for key, value in found.items() if not key.startswith("_")}


def unread(error: BaseException, file: str) -> Finding:
    """A file of the owner's that Python can't read: where, and why."""
    steps = [step for step in traceback.extract_tb(error.__traceback__) if step.filename == file]
    line = error.lineno if isinstance(error, SyntaxError) else steps[-1].lineno if steps else None
    place = f"{file} line {line}" if line else file
    why = error.msg if isinstance(error, SyntaxError) else str(error)
    return Finding(place, f"{type(error).__name__}: {why}", "it is Python: mend that line")


def wanted(data: Mapping[str, Any]) -> Declared:
    """From a host's data: knobs and models, whose files have the knobs' revisions where a recipe names none.

    Raises Refusal with every fault.
    """
    data = of_models(data)
    knobs = read_knobs(data)
    if not knobs.models:
        return Declared(knobs, (DeclaredModel("", knobs, _recipe(knobs)),))
    _check_revision(knobs)
    found, findings = [], []
    for name, own in knobs_of_models(knobs, data).items():
        try:
            found.append(declared_model(name, own, _recipe(own), knobs.models[name]))
        except Refusal as refusal:
            findings += [Finding(f"models.{name}", each.problem, each.remedy) for each in refusal.findings]
    if findings:
        raise Refusal(*findings)
    check_names(found)
    return Declared(knobs, tuple(found))


def _check_revision(knobs: Knobs) -> None:
    """Refuse one commit for several models: it is of one repository."""
    if not knobs.model_revision:
        return
    problem = f"model_revision={knobs.model_revision} is a commit of one model, and `models` names each by itself"
    entry = f'"model_revision": "{knobs.model_revision}"'
    remedy = f"clear it, and put {entry} into the entry of its model, one of: {', '.join(knobs.models)}"
    raise Refusal(Finding("knob", problem, remedy))


def _recipe(knobs: Knobs) -> Recipe:
    recipe = load_recipe(knobs.recipe)
    revisions = {each.repo: ("model_revisions", knobs.model_revisions.get(each.repo, "")) for each in recipe.models}
    if knobs.model_revision:
        revisions[recipe.model.repo] = ("model_revision", knobs.model_revision)
    findings = [
        Finding(
            "knob",
            f"{knob}={revision}: the recipe {recipe.name} has its own of {each.repo}, {each.revision}",
            f"clear {knob} in group_data/all.py",
        )
        for each in recipe.models
        for knob, revision in [revisions[each.repo]]
        if revision and each.revision not in (None, revision)
    ]
    if findings:
        raise Refusal(*findings)
    model, *further = (
        each.model_copy(update={"revision": each.revision or revisions[each.repo][1] or None}) for each in recipe.models
    )
    found = recipe.model_copy(update={"model": model, "further_models": tuple(further)})
    runs = ENGINES[found.engine]
    loaders.check(found, knobs, runs.LOADERS, runs.TITLE, runs.LOADS)
    return loaders.told(found, knobs, runs.LOADERS, runs.LOADS)
