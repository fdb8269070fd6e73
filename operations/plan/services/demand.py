"""What a start demands of a node's memory: the one number that admission, preflight, ready.sh, advice and pages use."""

from __future__ import annotations

import math
from collections.abc import Sequence

from operations.paths import ENGINE
from operations.plan.cluster.served_model import ServedModel
from operations.plan.config.kind import Findings, Kind
from operations.plan.config.knobs import Topology
from operations.plan.config.spark import IDLE_GIB
from operations.plan.engines import ENGINES
from operations.plan.engines.base import Demand
from operations.plan.recipes.recipe import Recipe
from operations.wire.look import Survey

#: What is in the way of a start, and how to see it.
HOLDERS = "end what holds it: ps aux --sort -rss | head"
TOO_SMALL_ALONE = Kind(
    "memory-too-small-alone",
    "has {gib:.1f} GiB of memory; serving alone the recipe needs {need:g}",
    remedy="set fallback to off, or choose a recipe that fits into one node",
)
TOO_SMALL = Kind(
    "memory-too-small", "has {gib:.1f} GiB of memory, the recipe needs {need:g}", remedy="choose another recipe"
)
KERNEL_TAKES = Kind(
    "memory-kernel-takes",
    "min_free_kbytes and swap take {kept:.1f} GiB beside the running engine, and leave {left:.1f}; below {floor:g} "
    "(memory_floor_gib) the guard kills it",
    remedy=f"stop it first (sudo systemctl stop '{ENGINE}*'), or take these back in group_data/all.py",
)
_HAS = "has {gib:.1f} GiB of memory available"
MODELS_LACK = Kind(
    "memory-models-lack",
    f"{_HAS}, its models need {{need:.1f}} together",
    remedy=f"give them less (memory_gib), or {HOLDERS}",
)
RECIPE_LACKS = Kind(
    "memory-recipe-lacks",
    f"{_HAS}, the recipe needs {{need:.4g}}",
    "the start would be refused, or freeze the node",
    "log out of the desktop; `sudo docker ps` and `ps aux --sort -rss | head` show who holds it; or take a recipe that "
    "wants less (`tandem recipes`)",
)
SHARE_LACKS = Kind(
    "memory-share-lacks",
    f"{_HAS}, {{engine}} wants {{need:.1f}} ({{flag}} {{share:g}} of {{total:.1f}}{{floor}})",
    remedy=f"{HOLDERS}; or set {{flag}} to {{least:g}} in the recipe",
)


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


def check(survey: Survey, models: Sequence[ServedModel], kept_gib: float = 0.0, floor_gib: float = 0.0) -> Findings:
    """What starts on a node demand, against what is there.

    `models`: those with a part on it; `kept_gib`: what this plan will take from it first (tuning.py); `floor_gib`: the
    guard's.

    Several fit into its memory together, or there is no plan (operations/plan/admission.py).
    """
    memory = survey["memory"]
    total_gib = memory["total_mib"] / 1024
    for each in models if len(models) == 1 else ():
        alone, need = each.recipe.memory_gib("solo"), each.recipe.memory_gib(each.knobs.of_an_engine.topology)
        if each.knobs.falls_back and total_gib < alone:
            yield TOO_SMALL_ALONE.said(gib=total_gib, need=alone)
        if total_gib < need:
            yield TOO_SMALL.said(gib=total_gib, need=need)
            return
    # A running engine gives its memory back before the next one starts. What the kernel is to keep it takes first.
    if is_serving(survey):
        left_gib = memory["available_mib"] / 1024 - kept_gib
        if kept_gib and left_gib < floor_gib:
            yield KERNEL_TAKES.said(kept=kept_gib, left=left_gib, floor=floor_gib)
        yield from _beside(survey, models, left_gib, floor_gib)
        return
    # What Ollama holds is unloaded before the start of an engine on the GPU.
    ollama_mib = memory.get("ollama_mib", 0) if any(each.recipe.needs.gpu for each in models) else 0
    yield from _missing(models, total_gib, (memory["available_mib"] + ollama_mib) / 1024 - kept_gib, floor_gib)


def is_serving(survey: Survey) -> bool:
    """Whether an engine runs on the node."""
    units = survey["state"]["services"]["units"]
    return any(told.get("ActiveState") == "active" for unit, told in units.items() if unit.startswith(ENGINE))


def _beside(survey: Survey, models: Sequence[ServedModel], left_gib: float, floor_gib: float) -> Findings:
    """Models on demand, on a node that serves: whether each will find its memory beside those that stay loaded."""
    units, total_gib = survey["state"]["services"]["units"], survey["memory"]["total_mib"] / 1024
    running = {unit for unit, told in units.items() if unit.startswith(ENGINE) and told.get("ActiveState") == "active"}
    here = {each.unit: of(each).of(total_gib) for each in models}
    if not any(each.is_on_demand for each in models) or running - here.keys():
        return
    back_gib = left_gib + sum(here[unit] for unit in running)
    # Less than an idle Spark offers: an engine of before may have more than this plan gives it, and gives that back.
    if back_gib >= IDLE_GIB[0]:
        yield from _missing(models, total_gib, back_gib, floor_gib)


def _missing(models: Sequence[ServedModel], total_gib: float, available_gib: float, floor_gib: float) -> Findings:
    """Who wants more to be free than is, and what helps."""
    # The floor counts once, however many fill their shares. Of those on demand one is loaded at the least.
    more = max(free_gib(each.recipe, of(each), total_gib, floor_gib) - of(each).of(total_gib) for each in models)
    if any(each.is_on_demand for each in models):
        # What loads one when it is asked for leaves the floor free (files/ondemand/ondemand.py).
        more = max(more, floor_gib)
    stay = sum(of(each).of(total_gib) for each in models if not each.is_on_demand)
    need = stay + max((of(each).of(total_gib) for each in models if each.is_on_demand), default=0.0) + more
    if available_gib >= need:
        return
    if len(models) > 1:
        yield MODELS_LACK.said(gib=available_gib, need=need)
        return
    (model,), wanted = models, of(models[0])
    if wanted.gib >= need or (model.is_on_demand and wanted.gib >= wanted.share * total_gib):
        yield RECIPE_LACKS.said(gib=available_gib, need=need)
        return
    engine, above = ENGINES[model.recipe.engine], need - wanted.share * total_gib
    least = math.floor((available_gib - above) / total_gib * 100) / 100
    floor = f", and {above:g} left above memory_floor_gib" if above else ""
    words = {"engine": engine.TITLE, "flag": engine.SHARE, "share": wanted.share, "total": total_gib, "floor": floor}
    yield SHARE_LACKS.said(gib=available_gib, need=need, least=least, **words)
