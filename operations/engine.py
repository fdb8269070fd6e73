"""The engines of the plan: what is not in it goes first, then files, then starts, workers before the head."""

from __future__ import annotations

import secrets
from collections.abc import Iterator
from functools import cache

import gevent
from pyinfra import host, state
from pyinfra.api.command import PyinfraCommand, StringCommand
from pyinfra.api.host import Host

from operations import looking, rollback, stopwatch, units
from operations.patience import fail, quietly
from operations.plan.litellm import COOLDOWN_S
from operations.plan.places import ALONE, ALONE_SINCE, ENGINE, RAY_TOKEN
from operations.plan.plan import Plan
from operations.verify import await_engine, has_proven_itself, is_live, was_started

#: Nodes whose engine serves as this plan has it, found when another was about to stop. There is one run in a process.
_standing_in: set[str] = set()


@looking.step
def retire(plan: Plan, on_head: bool) -> Iterator[PyinfraCommand]:
    """Stop an engine that is not the plan's, or not any more. In replicas a live one waits for its turn (`renew`); one
    that has no container yet, or that nobody reaches, serves nobody, and needs none.
    """
    planned = plan.of(host.name)
    if planned.node.is_head != on_head:
        host.noop("its turn is another step")
        return
    found = looking.at(host, plan)
    for stray in found["services"]["strays"]:
        host.log(f"the container {stray} has Tandem's name or label, and no unit: removed")
        yield StringCommand("docker rm --force", stray)
    if alone := found["alone"]:
        host.log(f"serves alone since {alone.get('since', '?')}, in the place of a cluster: that ends here")
        yield StringCommand("rm -f", ALONE, ALONE_SINCE, "&& systemctl daemon-reload")
    if planned.engine is None:
        if units.exists(found, ENGINE):
            yield from units.remove(ENGINE)
        else:
            host.noop("no engine belongs here, none is here")
        return
    # The label of its container: a unit that only waits has none.
    is_a_replica = found["services"]["units"][ENGINE].get("topology") == "replicas"
    waits_for_its_turn = plan.knobs.topology == "replicas" and is_a_replica
    # What serves alone is no rank, whatever it was started from.
    is_stale = bool(alone) or units.is_stale(found, planned.engine)
    if is_stale and waits_for_its_turn and state.is_executing and not is_live(plan, host):
        waits_for_its_turn = False
    if is_stale and not waits_for_its_turn:
        stopwatch.mark_first("stopped")
        yield units.stop(ENGINE)
    else:
        host.noop("nothing to stop")


@looking.step
def files(plan: Plan) -> Iterator[PyinfraCommand]:
    """Unit, environment and scripts. A running engine does not read them again."""
    service = plan.of(host.name).engine
    if service is None:
        host.noop("no engine belongs here")
        return
    yield from units.place_service(service, looking.at(host, plan)["files"])


@looking.step
def ray_token(plan: Plan) -> Iterator[PyinfraCommand]:
    """One token on all nodes, made on the first deploy. It travels on standard input, which nothing logs."""
    if plan.knobs.topology != "cluster" or plan.knobs.executor != "ray":
        host.noop("no Ray, no token")
        return
    hashes = {looking.at(each, plan)["secrets"][RAY_TOKEN] for each in state.inventory}
    if len(hashes) == 1 and "" not in hashes:
        host.noop("all nodes have the same token")
        return
    aside = f"{RAY_TOKEN}.part"
    yield StringCommand(
        f"install -d -m 700 $(dirname {RAY_TOKEN}) && umask 077 && cat > {aside} && mv {aside} {RAY_TOKEN}",
        _stdin=_token_of_this_run(),
    )


@cache
def _token_of_this_run() -> str:
    """The same for all nodes: one process is one run."""
    return secrets.token_hex(32)


@looking.step
def start(plan: Plan, on_head: bool) -> Iterator[PyinfraCommand]:
    """Start what is not running."""
    planned = plan.of(host.name)
    if planned.node.is_head != on_head:
        host.noop("its turn is another step")
        return
    found = looking.at(host, plan)
    if planned.engine is None or units.is_up(found, ENGINE):
        host.noop("runs")
        return
    yield from units.start(ENGINE)
    was_started(plan, host.name)
    stopwatch.mark("started")


@looking.step
def stand_in(plan: Plan, turn: str) -> Iterator[PyinfraCommand]:
    """In replicas, before the engine of the node whose turn it is stops: another one serves, or the deploy ends here.

    What has been started is waited for. (What was down has been started from the new files, all at once.)
    """
    planned, found = plan.of(host.name), looking.at(host, plan)
    is_due = planned.engine and units.is_stale(found, planned.engine) and units.has_container(found, ENGINE)
    host.noop(f"it is the turn of {turn}")
    if host.name != turn or not is_due or not state.is_executing:
        return
    others = [state.inventory.get_host(name) for name in plan.endpoints if name != turn]
    renewed = [other for other in others if _is_as_planned(plan, other)]
    problem = "\n".join(filter(None, (await_engine(plan, other) for other in renewed)))
    if not renewed and not any(is_live(plan, other) for other in others):
        problem = "no other engine answers any more (`make status` says more); run the deploy again when one does"
    if renewed and not problem:
        _standing_in.update(other.name for other in renewed)
    if problem:
        yield fail(
            rollback.after(plan, f"the engine of {turn} is not stopped, it may be the last that serves: {problem}")
        )


def proxy_follows() -> bool:
    """Whether an engine is about to stop while another serves as this plan has it: the proxy has to know that one."""
    return bool(_standing_in)


def all_are_new(plan: Plan) -> bool:
    """Whether no engine serves that is still to be renewed: then the proxies need not wait for those that start."""
    if not state.is_executing:
        return False
    looks = [(each.engine, looking.at(state.inventory.get_host(each.node.name), plan)) for each in plan.serving]
    return not any(service and units.is_stale(found, service) for service, found in looks)


def _is_as_planned(plan: Plan, where: Host) -> bool:
    engine = plan.of(where.name).engine
    return has_proven_itself(where.name) or not (engine and units.is_stale(looking.at(where, plan), engine))


@looking.step
def renew(plan: Plan, turn: str) -> Iterator[PyinfraCommand]:
    """In replicas: restart the engine of the node whose turn it is, and wait for its answer before the next one's."""
    planned = plan.of(host.name)
    if host.name != turn:
        host.noop(f"it is the turn of {turn}")
        return
    found = looking.at(host, plan)
    if planned.engine is None or not units.is_stale(found, planned.engine):
        host.noop("is as planned")
        return
    if units.has_container(found, ENGINE):
        yield quietly(lambda _, host: _let_cooldowns_end(host))
    yield units.stop(ENGINE)
    yield from units.start(ENGINE)
    was_started(plan, host.name)
    if problem := await_engine(plan, host):
        yield fail(rollback.after(plan, problem))


def _let_cooldowns_end(where: Host) -> None:
    """An engine that has just come up is still left alone by the proxy: stopping the other one now would leave none."""
    where.log(f"waiting {COOLDOWN_S + 2} s, until the proxy has taken every other engine back")
    gevent.sleep(COOLDOWN_S + 2)


@looking.step
def ready(plan: Plan) -> Iterator[PyinfraCommand]:
    """Wait for a real answer of each engine: bounded, explained, and ended early when it can't come any more."""
    if state.is_executing and host.name in plan.endpoints and (problem := await_engine(plan, host)):
        yield fail(rollback.after(plan, problem))
        return
    stopwatch.mark("answers")
    if state.is_executing and plan.of(host.name).engine and units.has_restarted(looking.at(host, plan), ENGINE):
        # It serves, and somebody has looked: what it has been through does not count any more.
        host.run_shell_command(units.forgive(ENGINE), _sudo=True)
    host.noop("answers")
