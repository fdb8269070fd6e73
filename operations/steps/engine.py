"""The engines of the plan: their files first, then what is not in it goes, then starts."""

from __future__ import annotations

import secrets
from collections.abc import Iterator

import gevent
from pyinfra import host, state
from pyinfra.api.command import PyinfraCommand, StringCommand
from pyinfra.api.host import Host

from operations.paths import ALONE, ALONE_SINCE, CANARY, RAY_TOKEN
from operations.plan.cluster.served_model import ServedModel, joins_by_ray
from operations.plan.services.litellm import COOLDOWN_S
from operations.runner import readiness, rollback, units
from operations.runner.patience import fail, python_step
from operations.runner.run import Run, step
from operations.runner.watching import parts

#: Seconds until the proxy has taken back an engine that has just come up.
TAKEN_BACK_S = COOLDOWN_S + 2


@step
def retire(run: Run) -> Iterator[PyinfraCommand]:
    """Stop engines that are not the plan's, or not any more, on all nodes at once: ranks end with each other anyhow. In
    replicas a live one waits for its turn (`renew`); one that has no container yet, or that nobody reaches, serves
    nobody, and needs none.
    """
    found, here = run.look(host), {each.unit: each for each in run.plan.on(host.name)}
    idle = True
    for stray in found["services"]["strays"]:
        idle = False
        host.log(f"the container {stray} has Tandem's name or label, and no unit: removed")
        yield StringCommand("docker rm --force", stray)
    if alone := found["alone"]:
        idle = False
        host.log(f"serves alone since {alone.get('since', '?')}, in the place of a cluster: that ends here")
        # Its canary looks at what serves alone for as long as it runs.
        watched = f"&& systemctl try-restart {CANARY}.service"
        yield StringCommand("rm -f", ALONE, ALONE_SINCE, "&& systemctl daemon-reload", watched)
    for unit in units.engines(found):
        if unit not in here:
            idle = False
            if units.unit_state(found, unit).get("url") and not _another_serves(run, unit):
                run.clock.mark_first("stopped")
            yield from units.remove(unit)
    for model in here.values():
        if _has_to_stop(run, model):
            idle = False
            if not _another_serves(run, model.unit):
                run.clock.mark_first("stopped")
            yield units.stop(model.unit)
    if idle:
        host.noop("nothing to stop")


def _another_serves(run: Run, unit: str) -> bool:
    """Whether an engine of the same model, which has no part on this node, serves on meanwhile."""
    if not state.is_executing:
        return False
    model = next((each for each in run.plan.models if each.unit == unit), None)
    if not model:
        return False
    own = {each.name for each in model.ranks(model.on(host.name))} if model.lies_on(host.name) else {host.name}
    return any(_stays(run, model.seen_from(name), run.node(name)) for name in model.endpoints if name not in own)


def _stays(run: Run, model: ServedModel, where: Host) -> bool:
    """Whether what runs of a model on this node serves, and is not stopped before another engine does."""
    found, service = run.look(where), run.plan.of(where.name).container(model.unit)
    if not found["alone"] and units.is_running(found, model.unit) and not units.is_stale(found, service):
        return readiness.is_live(run, model, where)
    return _waits_for_its_turn(run, model, where)


def _has_to_stop(run: Run, model: ServedModel) -> bool:
    """Whether what runs of a model on this node is not the plan's, and does not wait for its turn."""
    found = run.look(host)
    # What serves alone for a cluster is no rank, whatever it was started from.
    is_stale = bool(found["alone"]) or units.is_stale(found, run.plan.of(host.name).container(model.unit))
    return is_stale and not _waits_for_its_turn(run, model, host)


def _waits_for_its_turn(run: Run, model: ServedModel, where: Host) -> bool:
    """Whether what runs of a model on this node, and is not the plan's, serves until another engine does (`renew`). One
    answer a run: its files and its stop go by it.
    """
    if not state.is_executing:
        return _may_wait(run, model, where)
    waits = run.started.waits
    if (model.unit, where.name) not in waits:
        live = _may_wait(run, model, where) and readiness.is_live(run, model, parts(model, where)[0])
        waits[model.unit, where.name] = live
    return waits[model.unit, where.name]


def _may_wait(run: Run, model: ServedModel, where: Host) -> bool:
    found = run.look(where)
    # The labels of its container: a unit that only waits has none. In groups of other nodes than now it is another
    # layout, whose ranks would go one by one.
    runs = units.unit_state(found, model.unit)
    is_a_replica = runs.get("topology") == "replicas"
    # So is a solo, mostly at another address. Two of them that become replicas on each other's nodes would wait for
    # ever for each other's memory.
    is_a_replica |= runs.get("topology") == "solo" and not any(model.shares(each) for each in model.nodes)
    is_a_replica &= runs.get("group", "") == model.group and not found["alone"]
    service = run.plan.of(where.name).container(model.unit)
    return model.takes_turns and is_a_replica and units.is_stale(found, service)


@step
def files(run: Run) -> Iterator[PyinfraCommand]:
    """Units, environments and scripts. An engine that runs does not read them again. One that waits for its turn keeps
    its own until then (`tandem plan` shows what comes): should it end before, it comes back as what the proxies know.
    """
    mine, idle = run.plan.of(host.name), True
    for model in run.plan.on(host.name):
        if not (state.is_executing and _waits_for_its_turn(run, model, host)):
            idle = False
            yield from units.place_service(mine.container(model.unit), run.look(host)["files"])
    if idle:
        host.noop("no engine belongs here, or each waits for its turn")


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
def start(run: Run) -> Iterator[PyinfraCommand]:
    """Start what is not running."""
    idle = True
    for model in run.plan.on(host.name):
        if not units.is_up(run.look(host), model.unit):
            idle = False
            if not units.is_running(run.look(host), model.unit):
                # One that waited for its turn, and has ended, has none of them yet.
                yield from units.place_service(run.plan.of(host.name).container(model.unit), run.look(host)["files"])
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
    problem = "\n".join(filter(None, (readiness.await_engine(run, model, other) for other in renewed)))
    if not renewed and not any(readiness.is_live(run, model, other) for other in others):
        problem = "no other engine answers any more (`tandem status` says more); run the deploy again when one does"
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
    names = [each.node.name for each in run.plan.serving]
    here = [
        (run.look(run.node(name)), run.plan.of(name).container(each.unit))
        for name in names
        for each in run.plan.on(name)
    ]
    return not any(units.is_stale(found, service) for found, service in here)


def _is_as_planned(run: Run, model: ServedModel, where: Host) -> bool:
    return run.started.is_proven(model, where.name) or not _is_stale(run, model, where)


def _is_stale(run: Run, model: ServedModel, where: Host) -> bool:
    """Whether a rank of the engine that answers on this node is not the plan's."""
    ranks = parts(model, where)
    return any(units.is_stale(run.look(each), run.plan.of(each.name).container(model.unit)) for each in ranks)


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
        yield python_step(lambda _, host: _let_cooldowns_end(host))
    yield from units.place_service(run.plan.of(host.name).container(model.unit), run.look(host)["files"])
    yield units.stop(model.unit)
    yield from units.start(model.unit)
    run.started.add(model, host.name)
    if host.name == turn and (problem := readiness.await_engine(run, model, host)):
        yield fail(rollback.after(run, problem))


def _let_cooldowns_end(where: Host) -> None:
    """An engine that has just come up is still left alone by the proxy: stopping the other one now would leave none."""
    where.log(f"waiting {TAKEN_BACK_S} s, until the proxy has taken every other engine back")
    gevent.sleep(TAKEN_BACK_S)


@step
def ready(run: Run) -> Iterator[PyinfraCommand]:
    """Wait for a real answer of each engine: bounded, explained, and ended early when it can't come any more."""
    here = run.plan.on(host.name) if state.is_executing else ()
    for model in here:
        if host.name in model.endpoints and (problem := readiness.await_engine(run, model, host)):
            yield fail(rollback.after(run, problem))
            return
    run.clock.mark("answers")
    for model in here:
        if units.has_restarted(run.look(host), model.unit):
            # It serves, and somebody has looked: what it has been through does not count any more.
            host.run_shell_command(units.reset_restart_count(model.unit), _sudo=True)
    host.noop("answers")
