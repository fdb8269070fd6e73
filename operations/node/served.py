"""The plans that have served from this node, newest last: what a rollback goes back to, and whose images stay."""

from __future__ import annotations

import json
import time
from pathlib import Path
from typing import Any

from operations.node.commands import read

PLACE = Path("/var/lib/tandem/served.json")
#: Plans that are remembered.
KEPT = 5


def main(keep: dict[str, Any] | None = None) -> dict[str, Any]:
    """`plans`: [{id, knobs, recipe, images, when}]; with `keep` that plan is the newest from now on."""
    plans = plans_of(read(PLACE))
    if keep:
        others = [plan for plan in plans if plan["id"] != keep["id"]]
        plans = [*others, {**keep, "when": time.strftime("%Y-%m-%d %H:%M")}][-KEPT:]
        PLACE.parent.mkdir(parents=True, exist_ok=True)
        aside = PLACE.with_suffix(".part")
        aside.write_text(json.dumps(plans, indent=1))
        aside.chmod(0o600)
        aside.rename(PLACE)
    return {"plans": plans}


def newest() -> str:
    """The id of the plan that served last; empty: none has."""
    plans = plans_of(read(PLACE))
    return str(plans[-1]["id"]) if plans else ""


def images() -> list[str]:
    """Images of the plan that serves and of the one before it."""
    return [name for plan in plans_of(read(PLACE))[-2:] for name in plan["images"]]


def plans_of(text: str) -> list[dict[str, Any]]:
    """The plans of the file's text; none in a file that somebody has broken."""
    try:
        plans: list[dict[str, Any]] = json.loads(text or "[]")
        return [plan for plan in plans if {"id", "knobs", "recipe", "images"} <= plan.keys()]
    except (ValueError, AttributeError, TypeError):
        return []
