"""Everything that can be checked is checked here, on all nodes, before the first change."""

from __future__ import annotations

import time
import weakref
from collections.abc import Callable, Iterator
from typing import Any

import gevent
from gevent.lock import BoundedSemaphore
from pyinfra import logger
from pyinfra.api.exceptions import DeployError
from pyinfra.api.host import Host
from pyinfra.api.state import State
from pyinfra.context import ctx_state

from operations import judging, lock, looking, reach, rollback
from operations.plan import holes, mods, tls
from operations.plan.absence import Absence
from operations.plan.address import check_address
from operations.plan.alarms import check_alarms, goes_to
from operations.plan.checks import check_survey
from operations.plan.engines import ENGINES
from operations.plan.images import Image, engine_image, proxy_image
from operations.plan.knobs import Knobs
from operations.plan.nodes import Link, Node, choose_rails, engine_group, on_fabric
from operations.plan.plan import Plan, check_topology, make_plan
from operations.plan.prometheus import monitoring_remarks
from operations.plan.recipe import Recipe
from operations.plan.refusal import Finding, Refusal
from operations.remote import Survey, programs
from operations.sharing import head_of

_plans: weakref.WeakKeyDictionary[State, Plan] = weakref.WeakKeyDictionary()
_one_at_a_time = BoundedSemaphore()


def settle(advice: Callable[[Recipe, Knobs, int], str]) -> Plan:
    """The plan of this run: knobs, recipe and survey of all nodes, checked; the same object for every host.

    `advice`: what is to be said against a plan for so many nodes, or nothing. Where the plan is what serves it is not
    asked. Raises DeployError with all findings in one table.
    """
    state: State = ctx_state.get()
    with _one_at_a_time:
        if state not in _plans:
            try:
                _plans[state] = _settle(state, advice)
            except Refusal as refusal:
                raise DeployError(f"nothing was changed; this has to be put right first:{refusal}") from None
        return _plans[state]


def _settle(state: State, advice: Callable[[Recipe, Knobs, int], str]) -> Plan:
    everyone = list(state.inventory)
    if limited := [host.name for host in everyone if not state.is_host_in_limit(host)]:
        remedy = "a plan is for all nodes: leave out --limit"
        raise Refusal(*(Finding(name, "is not connected", remedy) for name in limited))
    absent = {absence.name: absence for absence in reach.absent(state.inventory)}
    if everyone[0].name in absent:
        # Its data and its disk are where everything begins.
        raise Refusal(*(_needed(absence) for absence in absent.values()))
    knobs, recipe = rollback.wanted_now(everyone[0])
    check_topology(recipe, knobs, len(everyone))
    missed = [] if knobs.topology == "solo" else [_needed(each, recipe, everyone[0]) for each in absent.values()]
    for absence in () if missed else absent.values():
        logger.warning(
            f"{absence.name} {absence.why}: this plan needs nothing of it; what an older plan has left there stays "
            "until a deploy finds it"
        )
    hosts = reach.answering(state.inventory)
    engine = engine_image(recipe, knobs)
    if found := mods.findings(engine.mods):
        raise Refusal(*found)
    if knobs.routing == "least-busy":
        logger.warning(
            "routing=least-busy: LiteLLM chooses an engine before it counts the request, and ties go to the first; "
            "a burst lands on one engine (measured: 64 of 64). balanced, the default, does not"
        )
    images = [engine, proxy_image(recipe, knobs)]
    surveys = dict(zip(hosts, _survey(hosts, knobs, recipe, images), strict=True))
    nodes = [_node(everyone.index(host), host, knobs, surveys[host]) for host in hosts]
    head = surveys[hosts[0]]
    can_be_asked = ENGINES[recipe.engine].VOCABULARY and head.get("docker", {}).get("version")
    if can_be_asked and not head.get("vocabulary"):
        head["vocabulary"] = judging.asked_first(hosts[0], engine, recipe)
    judging.remember(engine, head.get("vocabulary", {}))
    remarks = judging.judge(recipe, knobs, head, len(everyone))
    for remark in remarks:
        if not remark.error:
            logger.warning(f"{recipe.name}: {remark}")
    for host, survey in surveys.items():
        for place in survey.get("foreign", []):
            logger.warning(
                f"{host.name}: {place} is not its login's; Tandem can write there, `hf download` can't: "
                f'sudo chown -R "$USER": {place}'
            )
    for node in nodes if knobs.topology == "cluster" else nodes[:0]:
        if not node.engine_group:
            logger.warning(
                f"{node.name}: its kernel or its control groups (cgroup v2 is needed) don't let the walls know an "
                "engine's sockets: ports that a rank opens by itself can be reached from every network of the node"
            )
    findings = [*missed, *judging.errors(remarks, recipe.name), *_unpinned(recipe, head)]
    findings += _holes(recipe, knobs, {host.name: survey for host, survey in surveys.items()}, everyone[0])
    findings += [
        finding
        for node, host in zip(nodes, hosts, strict=True)
        for finding in check_survey(node, surveys[host], head, recipe, knobs, images, count=len(everyone))
    ]
    serving = nodes[:1] if knobs.topology == "solo" else nodes
    findings += tls.check(knobs, serving)
    findings += check_alarms(knobs.alarms) if knobs.keeps else []
    findings += check_address(knobs, serving, {host.name: survey for host, survey in surveys.items()})
    if findings:
        raise Refusal(*findings)
    lock.seen, lock.seen_at = head["lock"], time.monotonic()
    for host, survey in surveys.items():
        looking.remember(host.name, survey["state"])
    for line in (*tls.remarks(knobs, serving), *monitoring_remarks(knobs, head)):
        logger.warning(line)
    plan = make_plan(recipe, knobs, nodes, away=head["peers"] if absent else ())
    rollback.tell_changes(plan)
    if not rollback.served_last(plan, head_of(plan)) and (against := advice(recipe, knobs, len(everyone))):
        logger.warning(against)
    return plan


def _needed(absence: Absence, recipe: Recipe | None = None, head: Host | None = None) -> Finding:
    """A node that the plan can't do without; where the recipe can do with the head alone, that is said."""
    remedy = f"{absence.remedy}; or take it out of the inventory"
    if recipe and head and "solo" in recipe.topologies:
        remedy += f"; topology=solo serves on {head.name} alone"
    return Finding(absence.name, absence.why, remedy)


def _unpinned(recipe: Recipe, head: dict[str, Any]) -> Iterator[Finding]:
    """A revision has to be named: what is called main today is another model tomorrow."""
    for model in recipe.models:
        if model.revision is not None:
            continue
        known, is_served = head.get("main", {}).get(model.repo), model is recipe.model
        knob = "model_revision" if is_served else "model_revisions"
        value = f'"{known}"' if is_served else f'{{"{model.repo}": "{known}"}}'
        remedy = f"{knob} = {value} in group_data/all.py is what `main` is" if known else (
            f"set {knob} in group_data/all.py to a commit of it: its page on the Hub lists them"
        )  # fmt: skip
        yield Finding(recipe.name, f"names no revision of {model.repo}", remedy)


def _holes(recipe: Recipe, knobs: Knobs, surveys: dict[str, dict[str, Any]], head: Host) -> list[Finding]:
    """Known holes that want the owner's word. The way back is not shut by them: what is gone back to has served."""
    verdict = judging.known_holes(recipe, knobs, surveys)
    for line in holes.stale_lines(verdict.stale):
        logger.warning(line)
    refused = holes.refusals(verdict)
    if not head.data.get(rollback.ASKED):
        return refused
    for finding in refused:
        logger.warning(f"{finding.where}: {finding.problem}")
    return []


def _survey(hosts: list[Host], knobs: Knobs, recipe: Recipe, images: list[Image]) -> list[dict[str, Any]]:
    """One round trip to each node, all at once."""

    unpinned = {model.repo: model.folder for model in recipe.models if model.revision is None}

    def ask(index: int, host: Host) -> dict[str, Any]:
        on_head = index == 0
        here = images if on_head or knobs.topology != "solo" else images[:1]
        arguments = {
            "look": looking.arguments(recipe, knobs, {image.local: image.archive if on_head else "" for image in here}),
            "references": {image.local: image.reference for image in here},
            "model_source": knobs.model_from if on_head and knobs.model_from != "hub" else "",
            "token_file": knobs.hub_token_file if on_head else "",
            "hub": {"endpoint": knobs.hub_endpoint, "unpinned": unpinned} if on_head and unpinned else {},
            "engine": images[0].local if on_head else "",
            "alarms": [goes_to(each) for each in knobs.alarms] if on_head and knobs.keeps else [],
            "address": knobs.proxy_address if on_head or knobs.topology != "solo" else "",
        }
        return host.get_fact(Survey, arguments=arguments, _stdin=programs(), _sudo=False)

    return [task.get() for task in [gevent.spawn(ask, index, host) for index, host in enumerate(hosts)]]


def _node(index: int, host: Host, knobs: Knobs, survey: dict[str, Any]) -> Node:
    links = survey.get("state", {}).get("links", {})
    found = [
        Link(name, link["carrier"], link["rdma"], on_fabric(link["addresses"], knobs.rail_subnets))
        for name, link in links.items()
    ]
    rails = choose_rails(found, host.data.get("fabric_interfaces") or ())
    return Node(
        name=host.name,
        index=index,
        management=survey.get("management") or host.data.get("ssh_hostname") or host.name,
        home=survey.get("home", ""),
        machine=survey.get("machine", ""),
        rails=rails,
        rdma=tuple(links[rail]["rdma"] for rail in rails if rail in links and links[rail]["rdma"]),
        subnets=knobs.rail_subnets if rails else (),
        ssh_port=survey.get("ssh_port") or 22,
        engine_group=engine_group(survey.get("walls", {})),
        office=survey.get("office", {}).get("address", ""),
        office_device=survey.get("office", {}).get("device", ""),
    )
