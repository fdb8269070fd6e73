"""Everything that can be checked is checked here, on all nodes, before the first change."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace

import gevent
from pyinfra import logger
from pyinfra.api.exceptions import DeployError
from pyinfra.api.host import Host

from operations.plan import advisories
from operations.plan.cluster.fabric import inlets
from operations.plan.cluster.nodes import Node, engine_group
from operations.plan.cluster.ring import neighbours, ring_remarks
from operations.plan.cluster.served_model import ServedModel
from operations.plan.config.alarms import check_alarms, goes_to
from operations.plan.config.knobs import Knobs
from operations.plan.config.refusal import Finding, Refusal, Remark
from operations.plan.decide import preflight as decide
from operations.plan.declared import Declared, DeclaredModel, images_of
from operations.plan.engines import ENGINES
from operations.plan.plan import as_a_whole, check_topology, make_plan, served_models
from operations.plan.recipes.images import engine_image
from operations.plan.recipes.recipe import Recipe
from operations.plan.services import tls
from operations.plan.services.address import check_address
from operations.plan.services.prometheus import monitoring_remarks
from operations.plan.services.proxy import check_named
from operations.runner import looking, recipe_lint, rollback, seeing, wiring
from operations.runner.remote import Survey, programs
from operations.runner.run import Run
from operations.runner.wiring import Wiring
from operations.wire.look import Survey as Surveyed
from operations.wire.model import ModelSource


def settle(
    run: Run, advice: Callable[[Recipe, Knobs, int], str], declared: Callable[[Run], Declared] = rollback.wanted_now
) -> None:
    """Give the run its plan: knobs, recipes and survey of all nodes, checked. The first node that comes here does it.

    `advice`: what is to be said against a plan for so many nodes, or nothing. Where the plan is what serves it is not
    asked. `declared`: what the plan is made of. Raises DeployError with all findings in one table.
    """
    with run.settling:
        if run.is_settled:
            return
        try:
            _settle(run, advice, declared)
        except Refusal as refusal:
            raise DeployError(f"nothing was changed; this has to be put right first:{refusal}") from None


def _settle(run: Run, advice: Callable[[Recipe, Knobs, int], str], wanted: Callable[[Run], Declared]) -> None:
    everyone = list(run.state.inventory)
    names, absent = [host.name for host in everyone], {absence.name: absence for absence in run.absent}
    limited = [host.name for host in everyone if not run.state.is_host_in_limit(host)]
    _end_at(decide.inventory(names, limited, absent))
    declared = wanted(run)
    check_topology(declared, names)
    knobs, needed, hosts = as_a_whole(declared, names), declared.serving(names), run.answering
    missed = decide.absences(declared, names, absent)
    _say(missed.remarks)
    words = decide.words(declared, knobs)
    _end_at(words)
    _say(words.remarks)
    by_host = dict(zip(hosts, _survey(hosts, declared, knobs, names), strict=True))
    surveys = {host.name: survey for host, survey in by_host.items()}
    wired = wiring.find(everyone, by_host, knobs, needed)
    nodes = [_node(everyone, host, knobs, by_host[host], wired) for host in hosts]
    head, slots = surveys[hosts[0].name], decide.slots(surveys.values())
    models = served_models(declared, nodes, names, slots)
    found = decide.Verdict(missed.findings)
    found += decide.recipes([(model.recipe.name, _judged(run, head, model.engines[0])) for model in models])
    found += decide.surveys(nodes, surveys, models, knobs) + decide.models_as_they_are(declared, models, head)
    _say(found.remarks)
    findings = [*found.findings, *_holes(declared, surveys, everyone[0])]
    findings += decide.machines(nodes, surveys, models, knobs, len(everyone)).findings
    findings += seeing.settle(run, by_host, nodes, models)
    serving = [node for node in nodes if node.name in needed]
    findings += tls.check(knobs, serving)
    findings += check_alarms(knobs.alarms) if knobs.runs_prometheus else []
    findings += check_named(knobs, nodes[0], (head.get("office") or {}).get("addresses", {}))
    findings += check_address(knobs, serving, surveys)
    _end_at(decide.Verdict(tuple(findings)))
    run.lock.surveyed(head["lock"])
    for name, survey in surveys.items():
        run.looks.remember(name, survey["state"])
    for line in (*wired.remarks, *tls.remarks(knobs, serving), *monitoring_remarks(knobs, head), *ring_remarks(models)):
        logger.warning(line)
    run.plan = make_plan(declared, nodes, names=names, slots=slots)
    rollback.tell_changes(run)
    _advise(run, advice, len(everyone))


def _advise(run: Run, advice: Callable[[Recipe, Knobs, int], str], of_all: int) -> None:
    """Says where measurements speak for another topology than the plan's. `of_all`: nodes of the inventory."""
    if rollback.served_last(run, run.head):
        return
    # Nobody has measured clusters side by side.
    for model in (each for each in run.plan.models if not each.knobs.in_groups):
        # One that has the inventory to itself could have all of it; one of several has what the owner gives it.
        if against := advice(model.recipe, model.knobs, len(model.nodes) if model.name else of_all):
            logger.warning(against)


def _end_at(verdict: decide.Verdict) -> None:
    """Raises Refusal where something stands against the deploy, each thing once."""
    if verdict.findings:
        raise Refusal(*dict.fromkeys(verdict.findings))


def _say(remarks: Iterable[decide.Notice]) -> None:
    for each in remarks:
        logger.warning(each.problem)


def _judged(run: Run, head: Surveyed, model: ServedModel) -> list[Remark]:
    """Remarks on a model's recipe, by what its image says where it can be asked."""
    told = head.get("vocabulary", {}).get(model.image.local, {})
    if ENGINES[model.recipe.engine].VOCABULARY and head.get("docker", {}).get("version") and not told:
        told = recipe_lint.asked_first(run.head, model.image, model.recipe)
        head.setdefault("vocabulary", {})[model.image.local] = told
    if told:
        run.vocabularies[model.image.local] = told
    return recipe_lint.judge(model.recipe, model.knobs, head, len(model.nodes))


def _holes(declared: Declared, surveys: dict[str, Surveyed], head: Host) -> list[Finding]:
    """Known holes that want the owner's word. The way back is not shut by them: what is gone back to has served."""
    verdicts = [recipe_lint.known_holes(recipe, knobs, surveys) for recipe, knobs in declared.pairs]
    for line in advisories.stale_lines(advisories.stale_in_all(verdicts)):
        logger.warning(line)
    refused = list(dict.fromkeys(finding for each in verdicts for finding in advisories.refusals(each)))
    if not head.data.get(rollback.ASKED):
        return refused
    for finding in refused:
        logger.warning(f"{finding.where}: {finding.problem}")
    return []


def _survey(hosts: Sequence[Host], declared: Declared, knobs: Knobs, names: Sequence[str]) -> list[Surveyed]:
    """One round trip to each node, all at once."""
    files = [each for model in declared.models for each in model.recipe.models]
    unpinned = {model.repo: model.folder for model in files if model.revision is None}
    sources = {model.knobs.model_from for model in declared.models if model.knobs.model_from != "hub"}

    def ask(index: int, host: Host) -> Surveyed:
        on_head, serves = index == 0, host.name in declared.serving(names)
        models = declared.models if on_head else [each for each in declared.models if host.name in each.lies_on(names)]
        images = images_of(replace(declared, models=tuple(models))) if models else []
        here = images if serves or on_head else []
        arguments = {
            "look": looking.arguments(knobs, models, {image.local: image.archive if on_head else "" for image in here}),
            "references": {image.local: image.reference for image in here},
            "sources": _sources_of(models) if on_head and sources else {},
            "token_file": knobs.hub_token_file if on_head else "",
            "hub": {"endpoint": knobs.hub_endpoint, "unpinned": unpinned} if on_head and unpinned else {},
            "engines": [engine_image(each.recipe, each.knobs).local for each in models] if on_head else [],
            "served": {each.recipe.model.key: each.recipe.model.place for each in models},
            "alarms": [goes_to(each) for each in knobs.alarms] if on_head and knobs.runs_prometheus else [],
            "address": knobs.proxy_address if serves else "",
            "clocks": serves and knobs.gpu_clock_mhz > 0,
            "gpu": serves and any(each.recipe.needs.gpu for each in models),
            "inlets": inlets(knobs, index) if serves else None,
        }
        return host.get_fact(Survey, arguments=arguments, _stdin=programs(), _sudo=False)

    return [task.get() for task in [gevent.spawn(ask, index, host) for index, host in enumerate(hosts)]]


def _sources_of(models: Sequence[DeclaredModel]) -> dict[str, ModelSource]:
    """Folders that files shall come from, by the files' keys; `plain`: they may lie in the folder itself."""
    return {
        each.key: {"source": model.knobs.model_from, "plain": each is model.recipe.model}
        for model in models
        for each in model.recipe.models
        if model.knobs.model_from != "hub"
    }


def _node(everyone: Sequence[Host], host: Host, knobs: Knobs, survey: Surveyed, wired: Wiring) -> Node:
    index, around = everyone.index(host), host.name in wired.ring
    links = survey.get("state", {}).get("links", {})
    rails, subnets = wired.placed[host.name]
    rdma = tuple(device for rail in rails if rail in links and (device := links[rail]["rdma"]))
    ends = [everyone[other].name for other in neighbours(index)] if around else []
    return Node(
        name=host.name,
        index=index,
        management=survey.get("management") or host.data.get("ssh_hostname") or host.name,
        home=survey.get("home", ""),
        machine=survey.get("machine", ""),
        rails=rails,
        rdma=() if around and len(rdma) < len(rails) else rdma,
        subnets=subnets,
        ssh_port=survey.get("ssh_port") or 22,
        engine_group=engine_group(survey.get("firewall", {})),
        office=survey.get("office", {}).get("address", ""),
        office_device=survey.get("office", {}).get("device", ""),
        memory_mib=survey.get("memory", {}).get("total_mib", 0),
        macs=tuple(links[rail]["mac"] if rail in links else "" for rail in rails),
        ends=tuple(name if name in wired.ring else "" for name in ends for _ in knobs.rail_subnets),
        cdi=survey.get("cdi", False),
    )
