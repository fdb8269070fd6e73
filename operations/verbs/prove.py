"""`tandem prove`: what serves answers questions whose answers can be checked. The table is kept with the plan.

Ends with 1 where a check of form does not hold, or no question is answered. One of sense is told, and compared with
what served before.
"""

from __future__ import annotations

from pydantic import ValidationError
from pyinfra import host
from pyinfra.api.exceptions import DeployError
from pyinfra.api.host import Host

from operations.node.door import endpoint
from operations.node.unit import served
from operations.plan import history
from operations.plan.config.refusal import nearest
from operations.plan.recipes.recipe import Recipe
from operations.runner import proving, rollback
from operations.runner.remote import ask, ask_or_none
from operations.runner.run import Run, this_run
from operations.verbs.answers_table import answers_table
from operations.verbs.report import everywhere, say_json, wants_json
from operations.wire.answers import Proven
from operations.wire.plans import Served


def _recipes(plan: Served, name: str) -> dict[str, Recipe]:
    """Recipes of the models that serve, or of the one that is named. Raises DeployError."""
    try:
        found = history.recipes_of(plan)
    except ValidationError:
        raise DeployError("an older Tandem has deployed what serves: `tandem apply`, then ask again") from None
    if not name:
        return found
    if name not in found:
        names = [each for each in found if each]
        rest = f"the models are: {', '.join(names)}" if names else "one model serves: leave the name out"
        raise DeployError(f"no model is named `{name}`: {nearest(name, names, rest)}")
    return {name: found[name]}


def _door(run: Run) -> Host:
    """A node with a proxy. Raises DeployError."""
    doors = everywhere(run, run.answering, lambda each: ask_or_none(each, endpoint.main))
    name = next((name for name, door in doors.items() if door.get("url")), "")
    if not name:
        raise DeployError("no proxy runs on a node that answers: `tandem apply` deploys them")
    return run.node(name)


run = this_run()
if run.speaks(host):
    plans = ask(host, served.main)["plans"]
    if not plans:
        raise DeployError("no plan has served yet: `tandem apply` deploys one")
    recipes, door = _recipes(plans[-1], str(host.data.get("_model") or "")), _door(run)
    answers, wrong = dict[str, Proven](), list[str]()
    for name, recipe in recipes.items():
        try:
            answers[name] = proving.prove(recipe, door)
        except proving.NotAsked as why:
            wrong.append(f"{recipe.served_name} can't be proven: {why}")
    if answers:
        everywhere(run, run.answering, lambda each: ask_or_none(each, served.keep_answers, plans[-1]["id"], answers))
    before = {name: rollback.answers_before(plans[:-1], name, recipes[name]) for name in answers}
    if wants_json():
        say_json(models=answers, before=before)
    else:
        for name, proven in answers.items():
            answers_table(proven, before[name])
    wrong += [f"{each['model']}: {line}" for each in answers.values() for line in proving.fault_lines(each)]
    if wrong:
        raise DeployError("; ".join(wrong))
