"""Everything that can be checked is checked here, on all nodes, before the first change."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace

import gevent
from pyinfra import logger
from pyinfra.api.exceptions import DeployError
from pyinfra.api.host import Host

from operations.plan import advisories
from operations.plan.absence import Absence
from operations.plan.checks import check_survey, strangers
from operations.plan.cluster.fabric import inlets
from operations.plan.cluster.nodes import Node, engine_group
from operations.plan.cluster.ring import neighbours, ring_remarks
from operations.plan.cluster.served_model import ServedModel
from operations.plan.config.alarms import check_alarms, goes_to
from operations.plan.config.knobs import Knobs
from operations.plan.config.refusal import Finding, Refusal, Remark
from operations.plan.declared import Declared, DeclaredModel, images_of
from operations.plan.engines import ENGINES
from operations.plan.plan import as_a_whole, check_topology, make_plan, served_models
from operations.plan.ranks import check_model
from operations.plan.recipes import mods
from operations.plan.recipes.images import engine_image
from operations.plan.recipes.recipe import Recipe
from operations.plan.services import tls
from operations.plan.services.address import check_address
from operations.plan.services.demand import is_serving
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
    if limited := [host.name for host in everyone if not run.state.is_host_in_limit(host)]:
        remedy = "a plan is for all nodes: leave out --limit"
        raise Refusal(*(Finding(name, "is not connected", remedy) for name in limited))
    absent = {absence.name: absence for absence in run.absent}
    if everyone[0].name in absent:
        # Its data and its disk are where everything begins.
        raise Refusal(*(_needed(absence) for absence in absent.values()))
    declared, names = wanted(run), [host.name for host in everyone]
    check_topology(declared, names)
    knobs, needed = as_a_whole(declared, names), declared.serving(names)
    # Several models do not become one engine on the head by a topology.
    alone = None if knobs.models else declared.first.recipe
    missed = [_needed(each, alone, everyone[0]) for each in absent.values() if each.name in needed]
    for absence in () if missed else absent.values():
        logger.warning(
            f"{absence.name} {absence.why}: this plan needs nothing of it; what an older plan has left there stays "
            "until a deploy finds it"
        )
    hosts = run.answering
    if found := [each for recipe, own in declared.pairs for each in mods.findings(engine_image(recipe, own).mods)]:
        raise Refusal(*found)
    if knobs.routing == "least-busy":
        logger.warning(
            "routing=least-busy: LiteLLM chooses an engine before it counts the request, and ties go to the first; "
            "a burst lands on one engine (measured: 64 of 64). balanced, the default, does not"
        )
    surveys = dict(zip(hosts, _survey(hosts, declared, knobs, names), strict=True))
    wired = wiring.find(everyone, surveys, knobs, needed)
    nodes = [_node(everyone, host, knobs, surveys[host], wired) for host in hosts]
    head, slots = surveys[hosts[0]], _slots(surveys.values())
    models = served_models(declared, nodes, names, slots)
    # Two models may have the same recipe, and each its own knobs.
    remarks = [(model.recipe.name, _judged(run, head, model.engines[0])) for model in models]
    for line in dict.fromkeys(f"{name}: {remark}" for name, each in remarks for remark in each if not remark.error):
        logger.warning(line)
    for host, survey in surveys.items():
        for place in survey.get("foreign", []):
            logger.warning(
                f"{host.name}: {place} is not its login's; Tandem can write there, `hf download` can't: "
                f'sudo chown -R "$USER": {place}'
            )
        for problem, remedy in strangers(survey) if survey.get("sudo") and is_serving(survey) else ():
            logger.warning(f"{host.name}: {problem}: the engine would not start again beside it; {remedy}")
        if survey.get("cdi") and survey["software"].get("nvidia-container-toolkit") == "1.19.1":
            logger.warning(
                f"{host.name}: with CDI and NVIDIA's toolkit 1.19.1 a Spark froze under heavy loads, with 1.19.0 and "
                "without CDI it did not (nvidia-container-toolkit issue 1910; which of both it was is not known)"
            )
    in_clusters = {
        node.name for model in models if model.knobs.of_an_engine.topology == "cluster" for node in model.nodes
    }
    for host, survey in surveys.items():
        for each in (each for each in survey.get("shut", []) if each["is_door"]):
            logger.warning(
                f"{host.name}: {each['by']} does not let {each['peer'].partition('/')[0]} in to the proxy's port "
                f"{knobs.proxy_port} over {each['device']}, nor other clients that no rule of yours names: "
                f"{each['remedy']}"
            )
    for node in nodes:
        if node.name in in_clusters and not node.engine_group:
            logger.warning(
                f"{node.name}: its kernel or its control groups (cgroup v2 is needed) don't let the walls know an "
                "engine's sockets: ports that a rank opens by itself can be reached from every network of the node"
            )
    findings = [*missed, *(each for name, told in remarks for each in recipe_lint.errors(told, name))]
    findings += [each for model in declared.models for each in _unpinned(model, head)]
    for model in (each.engines[0] for each in models):
        layout = head.get("layout", {}).get(model.recipe.model.key, {})
        findings += check_model(model.recipe, model.knobs, len(model.nodes), layout)
    findings += _holes(declared, {host.name: survey for host, survey in surveys.items()}, everyone[0])
    findings += [
        finding
        for node, host in zip(nodes, hosts, strict=True)
        for finding in check_survey(node, surveys[host], head, models, knobs, len(everyone))
    ]
    findings += seeing.settle(run, surveys, nodes, models)
    serving = [node for node in nodes if node.name in needed]
    findings += tls.check(knobs, serving)
    findings += check_alarms(knobs.alarms) if knobs.runs_prometheus else []
    findings += check_named(knobs, nodes[0], (head.get("office") or {}).get("addresses", {}))
    findings += check_address(knobs, serving, {host.name: survey for host, survey in surveys.items()})
    if findings:
        raise Refusal(*dict.fromkeys(findings))
    run.lock.surveyed(head["lock"])
    for host, survey in surveys.items():
        run.looks.remember(host.name, survey["state"])
    for line in (*wired.remarks, *tls.remarks(knobs, serving), *monitoring_remarks(knobs, head), *ring_remarks(models)):
        logger.warning(line)
    run.plan = plan = make_plan(declared, nodes, names=names, slots=slots)
    rollback.tell_changes(run)
    if not rollback.served_last(run, run.head):
        # Nobody has measured clusters side by side.
        for model in (each for each in plan.models if not each.knobs.in_groups):
            # One that has the inventory to itself could have all of it; one of several has what the owner gives it.
            if against := advice(model.recipe, model.knobs, len(model.nodes if model.name else everyone)):
                logger.warning(against)


def _slots(surveys: Iterable[Surveyed]) -> dict[str, int]:
    """Which ports models have already, by the first node that says so."""
    found: dict[str, int] = {}
    for survey in surveys:
        for name, slot in survey.get("state", {}).get("slots", {}).items():
            found.setdefault(name, slot)
    return found


def _judged(run: Run, head: Surveyed, model: ServedModel) -> list[Remark]:
    """Remarks on a model's recipe, by what its image says where it can be asked."""
    told = head.get("vocabulary", {}).get(model.image.local, {})
    if ENGINES[model.recipe.engine].VOCABULARY and head.get("docker", {}).get("version") and not told:
        told = recipe_lint.asked_first(run.head, model.image, model.recipe)
        head.setdefault("vocabulary", {})[model.image.local] = told
    if told:
        run.vocabularies[model.image.local] = told
    return recipe_lint.judge(model.recipe, model.knobs, head, len(model.nodes))


def _needed(absence: Absence, recipe: Recipe | None = None, head: Host | None = None) -> Finding:
    """A node that the plan can't do without; where the recipe can do with the head alone, that is said."""
    remedy = f"{absence.remedy}; or take it out of the inventory"
    if recipe and head and "solo" in recipe.topologies:
        remedy += f"; topology=solo serves on {head.name} alone"
    return Finding(absence.name, absence.why, remedy)


def _unpinned(of: DeclaredModel, head: Surveyed) -> Iterator[Finding]:
    """A revision has to be named: what is called main today is another model tomorrow. Of several models each names its
    own: two recipes have two commits.
    """
    recipe, main = of.recipe, head.get("main", {})
    place = f'models["{of.name}"]' if of.name else "group_data/all.py"
    unpinned = [each for each in recipe.models if each.revision is None]
    # One dictionary for all of them: the next one would take the place of the one before.
    beside = {each.repo: main[each.repo] for each in unpinned if each is not recipe.model and main.get(each.repo)}
    for model in unpinned:
        is_served = model is recipe.model
        knob = "model_revision" if is_served else "model_revisions"
        value = json.dumps(main.get(model.repo) if is_served else of.knobs.model_revisions | beside)
        said = f'"{knob}": {value}' if of.name else f"{knob} = {value}"
        remedy = f"{said} in {place} is what `main` is" if main.get(model.repo) else (
            f"set {knob} in {place} to a commit of it: its page on the Hub lists them"
        )  # fmt: skip
        yield Finding(f"models.{of.name}" if of.name else recipe.name, f"names no revision of {model.repo}", remedy)


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
        engine_group=engine_group(survey.get("walls", {})),
        office=survey.get("office", {}).get("address", ""),
        office_device=survey.get("office", {}).get("device", ""),
        memory_mib=survey.get("memory", {}).get("total_mib", 0),
        macs=tuple(links[rail]["mac"] if rail in links else "" for rail in rails),
        ends=tuple(name if name in wired.ring else "" for name in ends for _ in knobs.rail_subnets),
        cdi=survey.get("cdi", False),
    )
