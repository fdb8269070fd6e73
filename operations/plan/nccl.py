"""Whose NCCL the ranks of a cluster load. [M] in docs/sources.md: with the build in torch's wheel (2.28.9, vLLM 0.20 to
0.26) two Sparks hang after 20 minutes to hours; with the system's build of the image they do not.

files/engine/nccl.py puts a link to the system's library in the place of the wheel's, before anything loads it.
VLLM_NCCL_SO_PATH alone would leave torch's own collectives with the wheel's: vLLM's communicator is all that reads it.
"""

from __future__ import annotations

from operations.plan import environment
from operations.plan.knobs import Knobs
from operations.plan.recipe import Recipe


def is_swapped(recipe: Recipe, knobs: Knobs) -> bool:
    """One GPU alone has nobody to talk to."""
    return recipe.nccl == "system" and knobs.topology == "cluster"


def commands(recipe: Recipe, knobs: Knobs) -> list[list[str]]:
    """What runs in a rank's container before the engine; it ends the start where it can't do it."""
    return [["python3", f"{environment.MOUNT}/nccl.py"]] if is_swapped(recipe, knobs) else []


def variables(recipe: Recipe, knobs: Knobs) -> dict[str, str]:
    """NCCL itself says its version when the ranks meet."""
    return {"NCCL_DEBUG": "VERSION"} if is_swapped(recipe, knobs) else {}


def expected(recipe: Recipe, knobs: Knobs) -> tuple[str, ...]:
    """What the log must say then. Not a version: both builds may have the same."""
    if not is_swapped(recipe, knobs):
        return ()
    return (r"NCCL: the system's \S+ stands for the wheel's", r"NCCL version \d|vLLM is using nccl==\d")
