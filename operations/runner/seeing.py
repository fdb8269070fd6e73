"""Whether engines' containers see the GPU of their node: tried with the plan's own flags, before a model is fetched."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

import gevent
from pyinfra import logger
from pyinfra.api.host import Host

from operations.node.image import gpu_trial as node_gpu_trial
from operations.plan.cluster.nodes import Node
from operations.plan.cluster.served_model import ServedModel, on
from operations.plan.config.refusal import Finding
from operations.plan.engines import ENGINES
from operations.plan.node_kinds import GPU_UNSEEN
from operations.plan.recipes.images import Image, without_tag
from operations.plan.services.demand import is_serving
from operations.plan.services.engine_service import gpu_exports, gpu_trial
from operations.runner.remote import ask
from operations.runner.run import Run
from operations.wire.look import Survey
from operations.wire.model import GpuTrial


def settle(
    run: Run, surveys: Mapping[Host, Survey], nodes: Sequence[Node], models: Sequence[ServedModel]
) -> list[Finding]:
    """Try what was not tried on each node as it is now, all nodes at once, and give what stands in the way.

    Trials whose image is not there yet stay in `run.trials`, for `tried` later in the deploy. What the survey has found
    against the GPU is enough: nothing is tried there.
    """
    for node, (host, survey) in zip(nodes, surveys.items(), strict=True):
        if survey.get("sudo") and survey["nvidia"] and survey["docker"]["version"] and not survey["gpu"]:
            run.trials[host.name] = list(_owed(node, survey, on(models, node.name)))
    tasks = [gevent.spawn(tried, run, host) for host in surveys]
    return [finding for task in tasks for finding in task.get()]


def tried(run: Run, where: Host) -> list[Finding]:
    """What stands in the way on one node, by its trials whose image is there: those are done with."""
    trials = run.trials.get(where.name, [])
    told = ask(where, node_gpu_trial.main, trials=trials) if trials else {}
    run.trials[where.name] = [trial for trial in trials if trial["names"][0] not in told]
    for remark in dict.fromkeys(each["remark"] for each in told.values() if each["remark"]):
        logger.warning(f"{where.name}: {remark}")
    faults = [each for each in told.values() if each["problem"]]
    return [GPU_UNSEEN.finding(where.name, problem=each["problem"], remedy=each["remedy"]) for each in faults]


def _owed(node: Node, survey: Survey, models: Sequence[ServedModel]) -> Iterator[GpuTrial]:
    """What it saw the GPU with hangs on the flags, the driver and what runs containers."""
    found: dict[str, GpuTrial] = {}
    for model in (each for each in models if each.recipe.needs.gpu):
        flags = gpu_trial(model, model.on(node.name))
        exports = gpu_exports(model.recipe)
        by = {"flags": flags, "driver": survey["nvidia"], "software": survey["software"]}
        by |= {"exports": exports} if exports else {}
        if survey["saw_gpu"].get(model.image.local) != by:
            found[model.image.local] = {
                "names": _names(model.image),
                "flags": flags,
                "exports": exports,
                "python": bool(ENGINES[model.recipe.engine].PACKAGE),
                "serving": is_serving(survey),
                "by": by,
            }
    yield from found.values()


def _names(image: Image) -> list[str]:
    """Tandem's name for it, and that of its source: it may have been pulled by hand."""
    is_pulled = image.kind == "registry" and not image.mods and not image.kept
    return [image.local, *([without_tag(image.reference)] if is_pulled else [])]
