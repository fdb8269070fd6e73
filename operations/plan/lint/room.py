"""Whether the weights fit a node, whole or one share of a cluster, and leave room for what is computed of them."""

from __future__ import annotations

from collections.abc import Iterator

from operations.plan.lint.subject import Subject
from operations.plan.refusal import Remark

#: GiB of a GB10 that programs can have, and what an engine takes beside weights and KV cache.
NODE_GIB = 119.0
BESIDE_GIB = 4.0


def fits(of: Subject, kv_gib: float = 0.0, flag: str = "", share: float = 1.0) -> Iterator[Remark]:
    """Weights against a node. `kv_gib`: of a pinned KV cache; `flag`: what says the share of memory that is taken."""
    weights = of.recipe.weights_gib
    if weights is None or not of.recipe.needs.gpu:
        return
    parts = of.nodes if of.knobs.topology == "cluster" else 1
    if weights / parts + kv_gib + BESIDE_GIB > NODE_GIB:
        what = f"{weights / parts:.0f} GiB of weights" + (f" and {kv_gib:.0f} GiB of KV cache" if kv_gib else "")
        remedy = "more nodes in topology=cluster" if parts == 1 else "more nodes, or fewer KV bytes"
        yield Remark(True, f"{what} on each node do not fit a GB10's {NODE_GIB:.0f} GiB", remedy)
    elif flag and not kv_gib and share * NODE_GIB < weights / parts + BESIDE_GIB:
        problem = f"{flag} {share:g} leaves no KV cache beside {weights / parts:.0f} GiB of weights"
        yield Remark(True, problem, "raise it (0.85 at most), or take another topology")
