"""What a start demands of a node's memory: the one number that admission, preflight, ready.sh, advice and pages use."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence

from operations.paths import ENGINE
from operations.plan.cluster.served_model import ServedModel
from operations.plan.config.knobs import Topology
from operations.plan.engines import ENGINES
from operations.plan.engines.base import Demand
from operations.plan.recipes.recipe import Recipe
from operations.wire.look import Survey

#: What is in the way of a start, and how to see it.
HOLDERS = "end what holds it: ps aux --sort -rss | head"


def demand(recipe: Recipe, topology: Topology, parts: int = 1) -> Demand:
    """What its engine wants to find free, and what the recipe says that it needs: the greater counts (`Demand.of`).

    `topology`: of one engine; `parts`: nodes that share its weights.
    """
    if not recipe.needs.gpu:
        return Demand(gib=recipe.memory_gib(topology))
    own = ENGINES[recipe.engine].demand(recipe, parts)
    return Demand(max(own.gib, recipe.memory_gib(topology)), own.share)


def of(model: ServedModel) -> Demand:
    """That of a start of one of a model's engines, on each of its nodes."""
    return demand(model.recipe, model.knobs.of_an_engine.topology, model.parts)


def free_gib(recipe: Recipe, wanted: Demand, total_gib: float, floor_gib: float) -> float:
    """GiB that must be free before a start, so that the memory guard does not end it later.

    A KV cache that the recipe does not pin fills the engine's share. Then `floor_gib` must be left beside that share.
    """
    fills = wanted.share and not ENGINES[recipe.engine].memory(recipe).cache_bytes
    return max(wanted.gib, wanted.share * total_gib + (floor_gib if fills else 0.0))


def taken_gib(model: ServedModel, total_gib: float) -> float:
    """GiB of a node that its engine has once it serves: what its start demands, or its share of the whole where the
    recipe says no GiB; 0: nobody says.
    """
    recipe = model.recipe
    says = recipe.memory_gib(model.knobs.of_an_engine.topology) or not recipe.needs.gpu
    share = 0.0 if says else ENGINES[recipe.engine].memory(recipe).share or 0.0
    return max(of(model).of(total_gib), share * total_gib)


def check(
    survey: Survey, models: Sequence[ServedModel], kept_gib: float = 0.0, floor_gib: float = 0.0
) -> Iterator[tuple[str, str]]:
    """What starts on a node demand, against what is there: [problem, remedy]. `models`: those with a part on it;
    `kept_gib`: what this plan will take from it first (tuning.py); `floor_gib`: the guard's.

    Several fit into its memory together, or there is no plan (operations/plan/admission.py).
    """
    memory = survey["memory"]
    total_gib = memory["total_mib"] / 1024
    for each in models if len(models) == 1 else ():
        alone, need = each.recipe.memory_gib("solo"), each.recipe.memory_gib(each.knobs.of_an_engine.topology)
        if each.knobs.falls_back and total_gib < alone:
            yield (
                f"has {total_gib:.1f} GiB of memory; serving alone the recipe needs {alone:g}",
                "set fallback to off, or choose a recipe that fits into one node",
            )
        if total_gib < need:
            yield f"has {total_gib:.1f} GiB of memory, the recipe needs {need:g}", "choose another recipe"
            return
    # A running engine gives its memory back before the next one starts. What the kernel is to keep it takes first.
    if is_serving(survey):
        left_gib = memory["available_mib"] / 1024 - kept_gib
        if kept_gib and left_gib < floor_gib:
            yield (
                f"min_free_kbytes and swap take {kept_gib:.1f} GiB beside the running engine, and leave {left_gib:.1f};"
                f" below {floor_gib:g} (memory_floor_gib) the guard kills it",
                f"stop it first (sudo systemctl stop '{ENGINE}*'), or take these back in group_data/all.py",
            )
        return
    # What Ollama holds is unloaded before the start of an engine on the GPU.
    ollama_mib = memory.get("ollama_mib", 0) if any(each.recipe.needs.gpu for each in models) else 0
    yield from _missing(models, total_gib, (memory["available_mib"] + ollama_mib) / 1024 - kept_gib, floor_gib)


def is_serving(survey: Survey) -> bool:
    """Whether an engine runs on the node."""
    units = survey["state"]["services"]["units"]
    return any(told.get("ActiveState") == "active" for unit, told in units.items() if unit.startswith(ENGINE))


def _missing(
    models: Sequence[ServedModel], total_gib: float, available_gib: float, floor_gib: float
) -> Iterator[tuple[str, str]]:
    """Who wants more to be free than is, and what helps."""
    # The floor counts once, however many fill their shares. Of those on demand one is loaded at the least.
    more = max(free_gib(each.recipe, of(each), total_gib, floor_gib) - of(each).of(total_gib) for each in models)
    stay = sum(of(each).of(total_gib) for each in models if not each.is_on_demand)
    need = stay + max((of(each).of(total_gib) for each in models if each.is_on_demand), default=0.0) + more
    if available_gib >= need:
        return
    has = f"has {available_gib:.1f} GiB of memory available"
    if len(models) > 1:
        yield f"{has}, its models need {need:.1f} together", f"give them less (memory_gib), or {HOLDERS}"
        return
    (model,), wanted = models, of(models[0])
    if wanted.gib >= need:
        yield f"{has}, the recipe needs {wanted.gib:.4g}", HOLDERS
        return
    engine, above = ENGINES[model.recipe.engine], need - wanted.share * total_gib
    least = math.floor((available_gib - above) / total_gib * 100) / 100
    floor = f", and {above:g} left above memory_floor_gib" if above else ""
    yield (
        f"{has}, {engine.TITLE} wants {need:.1f} ({engine.SHARE} {wanted.share:g} of {total_gib:.1f}{floor})",
        f"{HOLDERS}; or set {engine.SHARE} to {least:g} in the recipe",
    )
