"""Back to the plan that served last: offered when a new one does not come up, or done at once."""

from __future__ import annotations

import atexit
import itertools
import shlex
import subprocess
import sys
from collections.abc import Sequence
from pathlib import PurePath
from typing import Any

from pyinfra import logger
from pyinfra.api.host import Host

from operations.node.unit import served as node_served
from operations.plan import history
from operations.plan.cluster.served_model import ServedModel
from operations.plan.config.refusal import Finding, Refusal
from operations.plan.declared import Declared, images_of
from operations.plan.recipes.recipe import Recipe
from operations.plan.wanted import wanted
from operations.runner import given
from operations.runner.remote import ask
from operations.runner.run import Run
from operations.wire.answers import Proven
from operations.wire.plans import Served

#: Host data that asks for it: `--data _rollback=1`.
ASKED = "_rollback"


def wanted_now(run: Run) -> Declared:
    """What the inventory's data declares; with `_rollback`, what served before it. Raises Refusal."""
    head = run.head
    data = dict(head.data.dict())
    if not data.get(ASKED):
        return wanted(data)
    try:
        declared = wanted(data)
    except Refusal:
        # What can't even be read has never served.
        declared = None
    past = _Past(head, declared)
    found = history.previous(past.plans, past.now, past.contents)
    if found is None:
        raise Refusal(Finding("rollback", "no other plan has served yet", "there is nothing to go back to"))
    restored = history.restore(found, data, past.contents)
    logger.info(f"going back to {history.title(found)}; group_data still declares what it did: edit it to stay there")
    run.back_to = found
    return restored


class _Past:
    """What has served from the head: `plans`, the `contents` of images that are there, and `now`, what is declared."""

    def __init__(self, head: Host, declared: Declared | None) -> None:
        archives: dict[str, str] = {}
        try:
            if declared:
                archives = {each.local: each.archive for each in images_of(declared)}
        except Refusal:
            declared = None
        told = ask(head, node_served.main, archives=archives)
        self.plans: list[Served] = told["plans"]
        states = told["images"]
        self.contents = {name: state["image"]["content"] for name, state in states.items() if state["image"]}
        # What an archive held before it was replaced is not what is declared.
        current = {name: content for name, content in self.contents.items() if not states[name]["replaced"]}
        self.now = history.declared(declared, current) if declared else None


def tell_changes(run: Run) -> None:
    """When this run goes back: which files are not what served, because Tandem's own, or the nodes, have changed."""
    found = run.back_to
    if found and (changed := history.changed(found, run.plan)):
        logger.warning(
            f"Tandem's own files or the nodes have changed since {found.get('when')} ({'; '.join(changed)}): "
            "recipe, knobs and images go back, these files are today's"
        )


def served_last(run: Run, where: Host) -> bool:
    """Whether this plan is the one that served last, by that node's word."""
    return bool(run.look(where)["served"] == record(run)["id"])


def has_served(run: Run, model: ServedModel, where: Host) -> bool:
    """Whether the engine of a model on this node has served before, as it is and from the image of today."""
    if served_last(run, where):
        return True
    now = record(run)
    past = ask(where, node_served.main)["plans"]
    return any(
        _engine(each, model, where.name) == _engine(now, model, where.name) for each in past if "services" in each
    )


def answers_before(past: Sequence[Served], name: str, recipe: Recipe) -> Proven | None:
    """The newest table of answers under this name, of the same model by its repository; None: there is none."""
    same = (each for each in reversed(past) if _repo(each, name) == recipe.model.repo)
    return next((each["answers"][name] for each in same if name in each.get("answers", {})), None)


def _repo(served: Served, name: str) -> str:
    """The repository of a model in a plan; empty: the plan has none of this name."""
    recipes = served.get("recipes") or {"": served["recipe"]}
    return str(recipes.get(name, {}).get("model", {}).get("repo", ""))


def answers_of_same(run: Run, past: Sequence[Served], model: ServedModel) -> Proven | None:
    """The newest table of answers from a plan whose engine for this model had the same spec and image as now; None: no
    such plan is remembered, or it has no table. `past`: plans that served, the oldest first.
    """
    now, leader = record(run), model.leader.name
    mine = _engine(now, model, leader)
    same = [each for each in past if "services" in each and _engine(each, model, leader) == mine]
    return answers_before(same, model.name, model.recipe)


def _engine(served: Served, model: ServedModel, name: str) -> tuple[Any, Any]:
    """What a plan that served had for a model's engine on a node: its spec, and the image by content."""
    units = served["services"].get(name, {})
    spec = units[model.unit].get("spec") if model.unit in units else None
    return spec, served["serves"].get(history.role_of(model.name))


def record(run: Run) -> Served:
    """What is kept of this plan when it has served."""
    found = run.look(run.head)["images"].items()
    return history.record(run.plan, {name: state["image"].get("content", "") for name, state in found})


def after(run: Run, problem: str, *, is_failed: bool = True) -> str:
    """The problem of a plan, and the way back; with rollback=auto it is taken at the end where the plan has failed."""
    head = run.head
    if head.data.get(ASKED):
        return problem
    past = _Past(head, run.plan.declared)
    assert past.now is not None
    last = past.plans[-1] if past.plans else None
    if last and history.is_same(last, past.now, past.contents) and (changed := history.changed(last, run.plan)):
        problem += (
            f"\nThis recipe, these knobs and images have served on {last.get('when')}; what has changed since are "
            f"Tandem's own files, or the nodes: {'; '.join(changed)}"
        )
    found = history.previous(past.plans, past.now, past.contents)
    if found is None:
        return problem
    try:
        history.restore(found, head.data.dict(), past.contents)
    except Refusal as refusal:
        return f"{problem}\nThere is no way back:{refusal}"
    if not is_failed or run.plan.knobs.rollback == "offer" or run.lock.lost():
        return f"{problem}\n`tandem rollback{_as_given()}` goes back to {history.title(found)}"
    # Replicas can fail on several nodes at once; there is one way back.
    atexit.unregister(_go_back)
    atexit.register(_go_back, run, found)
    return f"{problem}\nrollback=auto: going back to {history.title(found)}"


def _as_given() -> str:
    """Inventory and knobs of this run: without them the way back is another desk's, or starts from another plan."""
    words = ""
    for inventory, file in itertools.pairwise(sys.argv):
        if PurePath(file).name == "deploy.py" and PurePath(inventory) != PurePath("inventory.py"):
            words += f" --inventory {shlex.quote(inventory)}"
    data = given.given(sys.argv)
    return "".join((words, *(f" {shlex.quote(each)}" for each in data)))


def _go_back(run: Run, found: Served) -> None:
    """Runs when this deploy is over: the same command once more, with what served before."""
    run.lock.release()
    argv = [sys.executable, "-m", "pyinfra", *sys.argv[1:], "-y", "--data", f"{ASKED}=1"]
    done = subprocess.run(argv, check=False)
    said = "serves again" if done.returncode == 0 else "does not come up either: `tandem status` says why"
    print(f"rollback: {history.title(found)}: {said}", file=sys.stderr)
