"""The plans that have served from this node, newest last: what a rollback goes back to, and whose images stay."""

from __future__ import annotations

import json
import time
from pathlib import Path

from operations.node.commands import read
from operations.node.image import origin
from operations.node.model import marks
from operations.paths import VAR
from operations.wire.answers import Proven
from operations.wire.disks import Need
from operations.wire.plans import Served, ServedTold

PLACE = Path(VAR) / "served.json"
#: Plans that are remembered.
KEPT = 5


def main(keep: Served | None = None, archives: dict[str, str] | None = None) -> ServedTold:
    """`plans`: what operations/plan/history.py has recorded, with `when`; with `keep` that plan is the newest from now
    on. With `archives` (local image name -> archive, or empty) also `images`: the state of these images and of all
    that the plans name.
    """
    plans = plans_of(read(PLACE))
    if keep:
        # Until now the one before has served.
        for need in [each for plan in (*plans[-1:], keep) for each in needs(plan) if each["revision"]]:
            marks.put(need["folder"], need["revision"], marks.SERVED)
        same = [plan for plan in plans if _way(plan) == _way(keep)]
        # Also the image that mods were put onto, which a way back does not ask for.
        names = list(dict.fromkeys(name for plan in [keep, *same] for name in plan["images"]))
        others = [plan for plan in plans if plan not in same]
        newest: Served = {**keep, "images": names, "when": time.strftime("%Y-%m-%d %H:%M")}
        plans = [*others, newest][-KEPT:]
        _write(plans)
    if archives is None:
        return {"plans": plans}
    named = {name: "" for plan in plans for name in plan["images"]}
    return {"plans": plans, "images": origin.states(named | archives)}


def keep_answers(plan: str, answers: dict[str, Proven]) -> bool:
    """Tables of the gate of answers, by their models' names, for the plan of this id; whether it is kept here."""
    plans = plans_of(read(PLACE))
    mine = [each for each in plans if each["id"] == plan]
    for each in mine:
        each["answers"] = {**each.get("answers", {}), **answers}
    if mine:
        _write(plans)
    return bool(mine)


def _write(plans: list[Served]) -> None:
    """Whole or not at all."""
    PLACE.parent.mkdir(parents=True, exist_ok=True)
    aside = PLACE.with_suffix(".part")
    aside.write_text(json.dumps(plans, indent=1))
    aside.chmod(0o600)
    aside.rename(PLACE)


def _way(plan: Served) -> str:
    """Plans that a rollback can't tell apart have the same; in records of an older Tandem it is the id."""
    return str(plan.get("way", plan["id"]))


def newest() -> str:
    """The id of the plan that served last; empty: none has."""
    plans = plans_of(read(PLACE))
    return str(plans[-1]["id"]) if plans else ""


def images() -> list[str]:
    """Images of the plan that serves and of the one before it."""
    return [name for plan in plans_of(read(PLACE))[-2:] for name in plan["images"]]


def needs(plan: Served) -> list[Need]:
    """The revisions that a plan wants; nothing of one that somebody has broken."""
    try:
        recipes = plan.get("recipes") or {"": plan["recipe"]}
        return [
            {
                "folder": "models--" + str(model["repo"]).replace("/", "--"),
                "revision": str(model.get("revision") or ""),
                "who": name or str(recipe["name"]),
                "when": str(plan.get("when", "")),
            }
            for name, recipe in recipes.items()
            for model in (recipe["model"], *recipe.get("further_models", ()))
        ]
    except (KeyError, TypeError, AttributeError):
        return []


def plans_of(text: str) -> list[Served]:
    """The plans of the file's text; none in a file that somebody has broken."""
    try:
        plans: list[Served] = json.loads(text or "[]")
        return [plan for plan in plans if {"id", "knobs", "recipe", "images"} <= plan.keys() and plan["images"]]
    except (ValueError, AttributeError, TypeError):
        return []
