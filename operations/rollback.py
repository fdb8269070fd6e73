"""Back to the plan that served last: offered when a new one does not come up, or done at once."""

from __future__ import annotations

import atexit
import subprocess
import sys
from collections.abc import Iterator, Mapping
from typing import Any

from pyinfra import host, logger
from pyinfra.api.command import PyinfraCommand
from pyinfra.api.host import Host

from operations import lock, looking
from operations.patience import quietly
from operations.plan import history
from operations.plan.knobs import Knobs
from operations.plan.plan import Plan
from operations.plan.recipe import Recipe
from operations.plan.refusal import Finding, Refusal
from operations.plan.wanted import wanted
from operations.remote import ask
from operations.sharing import head_of

#: Host data that asks for it: `--data _rollback=1`.
ASKED = "_rollback"


def wanted_now(head: Host) -> tuple[Knobs, Recipe]:
    """What the inventory's data declares; with `_rollback`, what served before it. Raises Refusal."""
    data = dict(head.data.dict())
    if not data.get(ASKED):
        return wanted(data)
    try:
        declared = history.record(*wanted(data))["id"]
    except Refusal:
        # What can't even be read has never served.
        declared = ""
    found = history.previous(ask(head, "served")["plans"], declared)
    if found is None:
        raise Refusal(Finding("rollback", "no other plan has served yet", "there is nothing to go back to"))
    logger.info(f"going back to {history.title(found)}; group_data still declares what it did: edit it to stay there")
    return history.restore(found, data)


@looking.step
def remember(plan: Plan) -> Iterator[PyinfraCommand]:
    """On every node: this plan has served."""
    served = history.record(plan.knobs, plan.recipe)
    if looking.at(host, plan)["served"] == served["id"]:
        host.noop("is the one that served last")
        return
    yield quietly(lambda _, host: bool(ask(host, "served", keep=served)))


def after(plan: Plan, problem: str) -> str:
    """The problem of a plan that does not come up, and the way back; with rollback=auto it is taken at the end."""
    head = head_of(plan)
    if head.data.get(ASKED):
        return problem
    found = history.previous(ask(head, "served")["plans"], history.record(plan.knobs, plan.recipe)["id"])
    if found is None:
        return problem
    if plan.knobs.rollback == "offer":
        return f"{problem}\n`make rollback{_as_given()}` goes back to {history.title(found)}"
    # Replicas can fail on several nodes at once; there is one way back.
    atexit.unregister(_go_back)
    atexit.register(_go_back, found)
    return f"{problem}\nrollback=auto: going back to {history.title(found)}"


def _as_given() -> str:
    """Knobs of this run alone: without them the way back would start from another plan than this one."""
    given = [value for word, value in zip(sys.argv, sys.argv[1:], strict=False) if word == "--data"]
    return f' DATA="{" ".join(given)}"' if given else ""


def _go_back(found: Mapping[str, Any]) -> None:
    """Runs when this deploy is over: the same command once more, with what served before."""
    lock.release()
    argv = [sys.executable, "-m", "pyinfra", *sys.argv[1:], "-y", "--data", f"{ASKED}=1"]
    done = subprocess.run(argv, check=False)
    said = "serves again" if done.returncode == 0 else "does not come up either: `make status` says why"
    print(f"rollback: {history.title(found)}: {said}", file=sys.stderr)
