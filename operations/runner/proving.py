"""The gate of answers: questions go through a node's door, and what came back is judged, compared and told."""

from __future__ import annotations

import json
import time

from pyinfra import logger
from pyinfra.api.host import Host

from operations.node.engine import answering
from operations.node.unit import served as node_served
from operations.plan.answers import gate
from operations.plan.answers.shapes import Seen, subject
from operations.plan.cluster.served_model import ServedModel
from operations.plan.recipes.recipe import Recipe
from operations.runner import rollback
from operations.runner.remote import ask, hand_or_none
from operations.runner.run import Run
from operations.wire.answers import Proven
from operations.wire.plans import Served


class NotAsked(Exception):
    """Nothing could be asked; the text says why."""


def prove(recipe: Recipe, where: Host) -> Proven:
    """Asks a model by the door of a node, in a few rounds. Raises NotAsked."""
    seen, begun = Seen(subject(recipe)), time.monotonic()
    while asked := gate.next_asked(seen):
        told = hand_or_none(where, json.dumps(asked), answering.main)
        if not told or "answers" not in told:
            raise NotAsked((told or {}).get("problem", f"{where.name} could not send the questions"))
        seen.answers |= {each["name"]: told["answers"].get(each["name"], {"text": "no answer"}) for each in asked}
    return {
        "model": recipe.served_name,
        "recipe": recipe.name,
        "when": time.strftime("%Y-%m-%d %H:%M"),
        "seconds": round(time.monotonic() - begun, 1),
        "rows": gate.table(seen),
    }


def prove_new(run: Run, head: Host) -> str:
    """At the end of a deploy: asks each model whose engine was not asked before as it is, and takes over what was
    found of the others. Gives what is to be said last, with the way back where a model falls below what served before.
    """
    past, said, fallen = ask(head, node_served.main)["plans"], list[str](), list[str]()
    for model in run.plan.models:
        if kept := rollback.answers_of_same(run, past, model):
            run.answers[model.name] = kept
            continue
        lines, fall = _asked(run, head, model, past)
        said += lines
        fallen += fall
    text = "\n".join(said)
    return rollback.after(run, "\n".join(filter(None, (text, *fallen))), is_failed=False) if fallen else text


def _asked(run: Run, head: Host, model: ServedModel, past: list[Served]) -> tuple[list[str], list[str]]:
    """What is to be said of one model, and in what it falls below what served before."""
    name = model.recipe.served_name
    try:
        proven = run.answers[model.name] = prove(model.recipe, head)
    except NotAsked as why:
        logger.warning(f"{name}: its answers could not be proven: {why}")
        return [], []
    before = rollback.answers_before(past, model.name)
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
