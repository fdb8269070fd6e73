"""The gate of answers: questions go through a node's door, and what came back is judged, compared and told."""

from __future__ import annotations

import json
import time

from pyinfra import logger
from pyinfra.api.host import Host

from operations.node.engine import answering
from operations.plan.answers import gate
from operations.plan.answers.shapes import Seen, subject
from operations.plan.cluster.served_model import ServedModel
from operations.plan.recipes.recipe import Recipe
from operations.runner import rollback
from operations.runner.patience import beat
from operations.runner.remote import hand_or_none
from operations.runner.run import Run
from operations.wire.answers import Proven
from operations.wire.plans import Served


class NotAsked(Exception):
    """Nothing could be asked, or nothing was answered; the text says why."""


def prove(recipe: Recipe, where: Host, within_s: float = answering.ALL_S) -> Proven:
    """Asks a model by the door of a node, in a few rounds, and says that it does. What is not answered after `within_s`
    seconds is not known. Raises NotAsked, also where no answer decides anything.
    """
    seen, begun = Seen(subject(recipe)), time.monotonic()
    with beat(where, f"asking {recipe.served_name}"):
        while asked := gate.next_asked(seen):
            left_s = within_s - (time.monotonic() - begun)
            told = hand_or_none(where, json.dumps(asked), answering.main, round(left_s, 1))
            if not told or "answers" not in told:
                raise NotAsked((told or {}).get("problem", f"{where.name} could not send the questions"))
            seen.answers |= {each["name"]: told["answers"].get(each["name"], {"text": "no answer"}) for each in asked}
    rows = gate.table(seen)
    if why := gate.undecided(rows):
        raise NotAsked(f"no question was answered ({why})")
    return {
        "model": recipe.served_name,
        "recipe": recipe.name,
        "when": time.strftime("%Y-%m-%d %H:%M"),
        "seconds": round(time.monotonic() - begun, 1),
        "rows": rows,
    }


def prove_new(run: Run, head: Host, past: list[Served]) -> str:
    """At the end of a deploy: asks each model whose engine was not asked before as it is, and takes over what was
    found of the others. `past`: what had served before this plan. Gives what is to be said last, with the way back
    where a model falls below what served before.
    """
    begun, said, fallen = time.monotonic(), list[str](), list[str]()
    # Those on demand are loaded for it, one after the other.
    whole_s = answering.ALL_S + sum(each.recipe.load_minutes * 60 for each in run.plan.models if each.is_on_demand)
    for model in run.plan.models:
        if kept := rollback.answers_of_same(run, past, model):
            run.answers[model.name] = kept
            continue
        lines, fall = _asked(run, head, model, past, whole_s - (time.monotonic() - begun))
        said += lines
        fallen += fall
    text = "\n".join(said)
    return rollback.after(run, "\n".join(filter(None, (text, *fallen))), is_failed=False) if fallen else text


def _asked(
    run: Run, head: Host, model: ServedModel, past: list[Served], within_s: float
) -> tuple[list[str], list[str]]:
    """What is to be said of one model, and in what it falls below what served before."""
    name = model.recipe.served_name
    try:
        proven = run.answers[model.name] = prove(model.recipe, head, within_s)
    except NotAsked as why:
        logger.warning(f"{name}: its answers could not be proven: {why}; `tandem prove` asks again")
        return [], []
    before = rollback.answers_before(past, model.name, model.recipe)
    said = [f"{name} answers: {gate.summary(proven['rows'])}; `tandem prove` asks again and shows each"]
    said += [f"  {each}" for each in fault_lines(proven)]
    fall = gate.fall(before["rows"], proven["rows"]) if before else None
    if not before or not fall or not fall.is_below:
        return said, []
    was = f"{before['recipe']}, which was asked on {before['when']}"
    return said, [f"{name} falls below {was}, in: {fall}"]


def fault_lines(proven: Proven) -> list[str]:
    """Checks of form that do not hold, each with why."""
    wrong = gate.faults(proven["rows"])
    return [f"{each['name']}: {each['why']}" for each in proven["rows"] if each["name"] in wrong]
