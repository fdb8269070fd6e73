"""Whether the weights fit a node, whole or one share of a cluster, and leave room for what is computed of them."""

from __future__ import annotations

from collections.abc import Iterator

from operations.plan.config.refusal import Remark
from operations.plan.config.spark import MOST_SHARE
from operations.plan.recipes.lint.subject import Subject
from operations.plan.recipes.recipe import Recipe

#: GiB of a GB10 that programs can have, and what an engine takes beside weights and KV cache.
NODE_GIB = 119.0
BESIDE_GIB = 4.0


def known_gib(recipe: Recipe, parts: int, kv_gib: float) -> float:
    """What an engine takes at least of each of the nodes that share its weights; 0: neither these nor a pinned KV cache
    are known.
    """
    known = (recipe.weights_gib or 0.0) / parts + kv_gib
    return known + BESIDE_GIB if known else 0.0


def fits(of: Subject, kv_gib: float = 0.0, flag: str = "", share: float = 1.0) -> Iterator[Remark]:
    """Weights against a node. `kv_gib`: of a pinned KV cache; `flag`: what says the share of memory that is taken."""
    weights = of.recipe.weights_gib
    if weights is None or not of.recipe.needs.gpu:
        return
    parts = of.nodes if of.knobs.topology == "cluster" else 1
    known = known_gib(of.recipe, parts, kv_gib)
    what = f"{weights / parts:.0f} GiB of weights" + (f" and {kv_gib:.0f} GiB of KV cache" if kv_gib else "")
    if known > NODE_GIB:
        remedy = "more nodes in topology=cluster" if parts == 1 else "more nodes, or fewer KV bytes"
        yield Remark(True, f"{what} on each node do not fit a GB10's {NODE_GIB:.0f} GiB", remedy)
    elif flag and kv_gib and (had := round(share * NODE_GIB)) < known:
        # What is pinned is taken all the same, so more than the share was looked for before the start. In whole GiB,
        # because a share that the plan tells is rounded.
        problem = f"{flag} {share:g} is {had} GiB of a GB10, and {what} take more"
        yield Remark(False, problem, "raise it (of one of several models `memory_gib` says it), or pin fewer KV bytes")
    elif flag and not kv_gib and share * NODE_GIB < known:
        problem = f"{flag} {share:g} leaves no KV cache beside {weights / parts:.0f} GiB of weights"
        remedy = (
            f"raise it ({MOST_SHARE} at most; of one of several models `memory_gib` says it), or take another topology"
        )
        yield Remark(True, problem, remedy)
