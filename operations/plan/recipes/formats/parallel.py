"""How many GPUs a recipe wants, and so where it may run: a DGX Spark has one."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from operations.plan.config.knobs import Topology
from operations.plan.config.refusal import Remark
from operations.plan.engines.base import Engine

#: Where people write how many GPUs a recipe needs, beside the flags.
_SAID = ("gpus", "num_gpus", "min_gpus", "gpu_count")


def split(runs: Engine, owned: Mapping[str, str]) -> int:
    """GPUs that the model is split over; 1 when the command does not say, or not as a number."""
    return _number(owned.get(runs.SPLIT, "")) or 1


def stages(runs: Engine, owned: Mapping[str, str]) -> int:
    """Stages that the model's layers are put into; 1 when the command does not say, or not as a number."""
    return (_number(owned.get(runs.COUNTED[0], "")) or 1) if runs.COUNTED else 1


def wished(defaults: Mapping[str, Any]) -> int:
    """GPUs by sparkrun's own keys, for an engine that has no flag for them: it starts one part of it on each node."""
    return max(_number(str(defaults.get(key))[:9]) or 1 for key in ("tensor_parallel", "pipeline_parallel"))


def remarks(runs: Engine, owned: Mapping[str, str], spelt: Mapping[str, str]) -> list[Remark]:
    """Errors in the flags of a command that count GPUs.

    A count of 1 is none. Neither are stages where the engine can have some: they are a wish, which
    operations/plan/engines/vllm_lint/stages.py judges. `owned`: value by flag; `spelt`: the flag as it was written.
    """
    found, read = [], {runs.SPLIT: "GPUs"}
    if runs.PIPELINES:
        read[runs.COUNTED[0]] = "stages"
    for name in (each for each in read if each in owned and not _number(owned[each])):
        if not re.search(r"[{$`]", owned[name]):
            problem = f"`{spelt[name]} {owned[name]}`".replace(" `", "`") + f" is no number of {read[name]}"
            found.append(Remark(True, problem, "write a whole number from 1 on"))
    for name in (each for each in runs.COUNTED if each in owned and owned[each] not in ("1", "")):
        if name not in read:
            problem, remedy = f"`{spelt[name]} {owned[name]}`: {runs.OWNED[name]}", "remove it from the command"
            if name == runs.COUNTED[0] and (wanted := _number(owned[name])):
                each = split(runs, owned)
                problem += f", and it wants {wanted} pipeline stages of {each} GPU(s), {wanted * each} nodes"
                remedy = "choose a recipe that is tensor-parallel alone"
            found.append(Remark(True, problem, remedy))
    return found


def said(data: Mapping[str, Any]) -> int:
    """GPUs that a recipe says beside its flags; 1 when it does not."""
    places = [data, *(data[key] for key in ("metadata", "requirements", "defaults") if isinstance(data.get(key), dict))]
    return max(_number(str(place.get(key))[:9]) or 1 for place in places for key in _SAID)


def topologies(
    gpus: int, *, solo_only: bool, cluster_only: bool, least: int = 1, found: list[Remark]
) -> tuple[tuple[Topology, ...], int]:
    """Where a recipe for so many GPUs may run, and with how many nodes at least."""
    if solo_only:
        if gpus > 1:
            problem = f"it wants {gpus} GPUs in one node; a DGX Spark has one"
            remedy = "set its tensor- and pipeline-parallel size to 1, or choose another recipe"
            found.append(Remark(True, problem, remedy))
        return ("solo", "replicas"), 1
    if cluster_only or max(gpus, least) > 1:
        return ("cluster",), max(least, gpus, 2)
    return ("solo", "cluster", "replicas"), 1


def _number(text: str) -> int:
    return int(text) if re.fullmatch(r"[0-9]{1,4}", text) else 0
