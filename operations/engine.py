"""The engines of the plan: what is not in it goes first, then files, then starts, of ranks the first one last."""

from __future__ import annotations

import secrets
from collections.abc import Iterator

import gevent
from pyinfra import host, state
from pyinfra.api.command import PyinfraCommand, StringCommand
from pyinfra.api.host import Host

from operations import proving, rollback, units
from operations.paths import ALONE, ALONE_SINCE, RAY_TOKEN
from operations.patience import fail, quietly
from operations.plan.litellm import COOLDOWN_S
from operations.plan.served_model import ServedModel, joins_by_ray
from operations.run import Run, step
from operations.shapes.look import Look
from operations.watching import parts


@step
def retire(run: Run, first: bool) -> Iterator[PyinfraCommand]:
    """Stop engines that are not the plan's, or not any more: `first` those that lead their ranks, then the others. In
    replicas a live one waits for its turn (`renew`); one that has no container yet, or that nobody reaches, serves
    nobody, and needs none.
    """
    found, here = run.look(host), {each.unit: each for each in run.plan.on(host.name)}
    if first:
        for stray in found["services"]["strays"]:
            host.log(f"the container {stray} has Tandem's name or label, and no unit: removed")
            yield StringCommand("docker rm --force", stray)
        if alone := found["alone"]:
            host.log(f"serves alone since {alone.get('since', '?')}, in the place of a cluster: that ends here")
            yield StringCommand("rm -f", ALONE, ALONE_SINCE, "&& systemctl daemon-reload")
    for unit in units.engines(found):
        # Of another plan's engine its container says whether it answers: a cluster's other ranks do not.
        if unit not in here and bool(units.of(found, unit).get("url")) == first:
            yield from units.remove(unit)
    idle = True
    for model in here.values():
        if model.on(host.name).leads == first and _has_to_stop(run, model, found):
            idle = False
            run.clock.mark_first("stopped")
            yield units.stop(model.unit)
    if idle:
        host.noop("nothing to stop")


def _has_to_stop(run: Run, model: ServedModel, found: Look) -> bool:
    """Whether what runs of a model on this node is not the plan's, and does not wait for its turn."""
    # The labels of its container: a unit that only waits has none. In groups of other nodes than now it is another
    # layout, whose ranks would go one by one.
    runs = units.of(found, model.unit)
    is_a_replica = runs.get("topology") == "replicas" and runs.get("group", "") == model.group
    # What serves alone is no rank, whatever it was started from.
    is_stale = bool(found["alone"]) or units.is_stale(found, run.plan.of(host.name).engines[model.unit])
    waits_for_its_turn = model.takes_turns and is_a_replica
    if is_stale and waits_for_its_turn and state.is_executing:
        waits_for_its_turn = proving.is_live(run, model, parts(model, host)[0])
    return is_stale and not waits_for_its_turn


@step
def files(run: Run) -> Iterator[PyinfraCommand]:
    """Units, environments and scripts. A running engine does not read them again."""
    mine = run.plan.of(host.name)
    for service in mine.engines.values():
        yield from units.place_service(service, run.look(host)["files"])
    if not mine.engines:
        host.noop("no engine belongs here")


@step
def ray_token(run: Run) -> Iterator[PyinfraCommand]:
    """One token on all nodes, made on the first deploy. It travels on standard input, which nothing logs."""
    names = {node.name for each in run.plan.models if joins_by_ray(each) for node in each.nodes}
    if not names:
        host.noop("no Ray, no token")
        return
    if host.name not in names:
        host.noop("no rank of Ray's is here")
        return
    hashes = {run.look(run.node(name))["secrets"][RAY_TOKEN] for name in names}
    if len(hashes) == 1 and "" not in hashes:
        host.noop("all nodes have the same token")
        return
    aside = f"{RAY_TOKEN}.part"
    yield StringCommand(
        f"install -d -m 700 $(dirname {RAY_TOKEN}) && umask 077 && cat > {aside} && mv {aside} {RAY_TOKEN}",
        _stdin=run.once(RAY_TOKEN, lambda: secrets.token_hex(32)),
    )


@step
def start(run: Run, first: bool) -> Iterator[PyinfraCommand]:
    """Start what is not running: `first` the engines that lead their ranks, else the others."""
    idle = True
    for model in run.plan.on(host.name):
        if model.on(host.name).leads == first and not units.is_up(run.look(host), model.unit):
            idle = False
            yield from units.start(model.unit)
            run.started.add(model, host.name)
            run.clock.mark("started")
    if idle:
        host.noop("runs")


@step
def stand_in(run: Run, model: ServedModel, turn: str) -> Iterator[PyinfraCommand]:
    """In replicas, before the engine of the node whose turn it is stops: another one serves, or the deploy ends here.

    What has been started is waited for. (What was down has been started from the new files, all at once.)
    """
    host.noop(f"it is the turn of {turn}")
    if host.name != turn or not state.is_executing:
        return
    if not _is_stale(run, model, host) or not units.has_container(run.look(host), model.unit):
        return
    others = [run.node(name) for name in model.endpoints if name != turn]
    renewed = [other for other in others if _is_as_planned(run, model, other)]
    problem = "\n".join(filter(None, (proving.await_engine(run, model, other) for other in renewed)))
    if not renewed and not any(proving.is_live(run, model, other) for other in others):
        problem = "no other engine answers any more (`make status` says more); run the deploy again when one does"
    if renewed and not problem:
        run.started.stands_in = True
    if problem:
        yield fail(
            rollback.after(run, f"the engine of {turn} is not stopped, it may be the last that serves: {problem}")
        )


def proxy_follows(run: Run) -> bool:
    """Whether an engine is about to stop while another serves as this plan has it: the proxy has to know that one."""
    return run.started.stands_in


def all_are_new(run: Run) -> bool:
    """Whether no engine serves that is still to be renewed: then the proxies need not wait for those that start."""
    if not state.is_executing:
        return False
    looks = [(each.engines, run.look(run.node(each.node.name))) for each in run.plan.serving]
    return not any(units.is_stale(found, service) for engines, found in looks for service in engines.values())


def _is_as_planned(run: Run, model: ServedModel, where: Host) -> bool:
    return run.started.is_proven(model, where.name) or not _is_stale(run, model, where)


def _is_stale(run: Run, model: ServedModel, where: Host) -> bool:
    """Whether a rank of the engine that answers on this node is not the plan's."""
    ranks = parts(model, where)
    return any(units.is_stale(run.look(each), run.plan.of(each.name).engines[model.unit]) for each in ranks)


@step
def renew(run: Run, model: ServedModel, turn: str) -> Iterator[PyinfraCommand]:
    """In replicas: restart the engine of the node whose turn it is, and wait for its answer before the next one's. All
    ranks of a group at once: they meet anew, whoever comes first.
    """
    answers = run.node(turn)
    if host.name not in [each.name for each in parts(model, answers)]:
        host.noop(f"it is the turn of {turn}")
        return
    if not _is_stale(run, model, answers):
        host.noop("is as planned")
        return
    if units.has_container(run.look(host), model.unit):
        yield quietly(lambda _, host: _let_cooldowns_end(host))
    yield units.stop(model.unit)
    yield from units.start(model.unit)
    run.started.add(model, host.name)
    if host.name == turn and (problem := proving.await_engine(run, model, host)):
        yield fail(rollback.after(run, problem))


def _let_cooldowns_end(where: Host) -> None:
    """An engine that has just come up is still left alone by the proxy: stopping the other one now would leave none."""
    where.log(f"waiting {COOLDOWN_S + 2} s, until the proxy has taken every other engine back")
    gevent.sleep(COOLDOWN_S + 2)


@step
def ready(run: Run) -> Iterator[PyinfraCommand]:
    """Wait for a real answer of each engine: bounded, explained, and ended early when it can't come any more."""
    here = run.plan.on(host.name) if state.is_executing else ()
    for model in here:
        if host.name in model.endpoints and (problem := proving.await_engine(run, model, host)):
            yield fail(rollback.after(run, problem))
            return
    run.clock.mark("answers")
    for model in here:
        if units.has_restarted(run.look(host), model.unit):
            # It serves, and somebody has looked: what it has been through does not count any more.
            host.run_shell_command(units.forgive(model.unit), _sudo=True)
    host.noop("answers")
