"""What vLLM keeps from one start to the next against the ranks of a cluster, which have to find it alike."""

from __future__ import annotations

from collections.abc import Iterator

from operations.plan.config.refusal import Remark
from operations.plan.engines import kept
from operations.plan.engines.vllm_caches import AUTOTUNE, CACHES
from operations.plan.engines.vllm_lint.said import Said
from operations.plan.recipes.lint.subject import Subject

#: What vLLM reads as off.
_OFF = ("", "0")


def alike(of: Subject) -> Iterator[Remark]:
    """Where a release is known to hang behind what one rank has kept, and what the plan does about it."""
    if of.knobs.topology != "cluster" or not of.recipe.needs.gpu or not of.version:
        return
    for each in kept.alike(CACHES, of.version):
        said = of.recipe.env.get(each.variable or each.switch)
        if each.switch:
            if said is not None and said not in _OFF:
                problem = (
                    f"{each.switch}: a node that was replaced keeps vLLM {of.version} waiting for ever in a cluster, "
                )
                yield Remark(False, f"{problem}as a rank that has a plan leaves out what the others do", "remove it")
            continue
        if each.variable == AUTOTUNE and not Said(of).tunes:
            continue
        problem = f"a cluster's second start hangs in vLLM {of.version} where {each.path} is kept (vLLM #57423)"
        if said is None:
            later = f" vLLM {each.before} keeps one for each rank" if each.before else ""
            yield Remark(False, f"{problem}: the plan keeps it for one start alone", f"each start tunes anew;{later}")
        else:
            remedy = f"remove {each.variable}, or name a folder that goes with the container"
            yield Remark(False, f"{problem}, and the recipe says where: {said}", remedy)
