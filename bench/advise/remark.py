"""What `tandem plan` says of a topology that the advice is clearly against: one line, from files alone."""

from __future__ import annotations

from pathlib import Path

from bench.advise.asking import question
from bench.advise.changes import clearly_behind
from bench.advise.load import Load
from bench.advise.options import Outlook
from bench.advise.trust import is_measured
from bench.resuming import RUNS
from operations.plan.config.knobs import Knobs
from operations.plan.config.refusal import Refusal
from operations.plan.recipes.recipe import Recipe

#: A deploy says nothing of its load, so a topology has to be behind with few users and with many, in what one user sees
#: and in the sum, and by more than this.
LOADS = tuple(Load(users, 1024, 128) for users in (1, 4, 16, 64))
CLEAR = 0.10


def against(recipe: Recipe, knobs: Knobs, nodes: int, runs: Path = RUNS) -> str:
    """Empty: nothing is known against it, or only what nobody has measured is."""
    # Tables and estimate are of tensor-parallel clusters.
    if nodes < 2 or not recipe.needs.gpu or knobs.stages > 1:
        return ""
    try:
        asked = question(recipe, nodes, LOADS[0], runs)
    except Refusal:
        return ""
    behind: list[tuple[Outlook, Outlook]] = []
    for load in LOADS:
        # What was computed is no reason against what somebody declares, and neither is a wait.
        seen = [asked.outlook(setup, load) for setup in asked.setups()]
        outlooks = [each for each in seen if is_measured(each)]
        if behind and not any(each.setup.topology == knobs.topology and each.point for each in outlooks):
            break
        found = [clearly_behind(outlooks, knobs.topology, what, CLEAR) for what in ("whole", "decode")]
        if not all(found):
            return ""
        behind += [found[-1]] if found[-1] else []
    if len(behind) < 2:
        return ""
    (mine, few), (theirs, many) = behind[0], behind[-1]
    where = few.words.split(",")[0]
    return (
        f"topology={knobs.topology} is behind at every load that was measured: {_decode(mine)} tok/s of decode where "
        f"{few.setup} has {_decode(few)} for one user, {_decode(theirs)} and {_decode(many)} ({many.setup}) for "
        f"{many.load.users} ({few.kind}, {where}); tandem advise says when that changes"
    )


def _decode(outlook: Outlook) -> str:
    return f"{outlook.of('decode') or 0:.4g}"
