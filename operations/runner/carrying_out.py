"""Decisions become pyinfra's commands: each action has one way, and none asks the plan."""

from __future__ import annotations

from collections.abc import Generator, Iterable, Iterator
from functools import partial, singledispatch

import gevent
from pyinfra import host, state
from pyinfra.api.command import PyinfraCommand, QuoteString, StringCommand
from pyinfra.api.exceptions import PyinfraError
from pyinfra.api.host import Host

from operations.paths import ADMIN, ALONE, ALONE_SINCE, CANARY, OFFICE, folder_of
from operations.plan.decide import actions as do
from operations.plan.decide.seen import Seen
from operations.plan.services.litellm import COOLDOWN_S
from operations.plan.services.litellm_service import haproxy_name
from operations.runner import readiness, rollback, successors, units
from operations.runner.managed_files import put_secrets_right
from operations.runner.patience import fail, python_step
from operations.runner.run import Run

#: Seconds until the proxy has taken back an engine that has just come up.
TAKEN_BACK_S = COOLDOWN_S + 2


def seen(run: Run) -> Seen:
    """What decisions of this run go by."""
    return Seen(
        run.plan,
        lambda name: run.look(run.node(name)),
        lambda model, name: readiness.is_live(run, model, run.node(name)),
        run.started.is_proven,
        not state.is_executing,
        run.started.waits,
    )


def carry_out(run: Run, actions: Iterable[do.Action]) -> Generator[PyinfraCommand, None, list[str]]:
    """The commands of these actions on pyinfra's `host`. Returns the units that have not taken up their engines."""
    left: list[str] = []
    for action in actions:
        yield from carried_out(action, run, left)
    return left


@singledispatch
def carried_out(action: do.Action, run: Run, left: list[str]) -> Iterator[PyinfraCommand]:
    """Commands of one action. Units that it leaves undone go into `left`. Raises NotImplementedError: it has no way."""
    raise NotImplementedError(action)


@carried_out.register
def _nothing(action: do.Nothing, _run: Run, _left: list[str]) -> Iterator[PyinfraCommand]:
    host.noop(action.why)
    yield from ()


@carried_out.register
def _remove_container(action: do.RemoveContainer, _run: Run, _left: list[str]) -> Iterator[PyinfraCommand]:
    host.log(f"the container {action.name} has Tandem's name or label, and no unit: removed")
    yield StringCommand("docker rm --force", action.name)


@carried_out.register
def _end_alone(action: do.EndAlone, _run: Run, _left: list[str]) -> Iterator[PyinfraCommand]:
    host.log(f"serves alone since {action.since}, in the place of a cluster: that ends here")
    # Its canary looks at what serves alone for as long as it runs.
    watched = f"&& systemctl try-restart {CANARY}.service"
    yield StringCommand("rm -f", ALONE, ALONE_SINCE, "&& systemctl daemon-reload", watched)


@carried_out.register
def _service_stops(_action: do.ServiceStops, run: Run, _left: list[str]) -> Iterator[PyinfraCommand]:
    run.clock.mark_first("stopped")
    yield from ()


@carried_out.register
def _place_files(action: do.PlaceFiles, run: Run, _left: list[str]) -> Iterator[PyinfraCommand]:
    yield from units.place_service(action.service, run.look(host)["files"])


@carried_out.register
def _stop(action: do.Stop, _run: Run, _left: list[str]) -> Iterator[PyinfraCommand]:
    yield units.stop(action.unit)


@carried_out.register
def _start(action: do.Start, _run: Run, _left: list[str]) -> Iterator[PyinfraCommand]:
    yield from units.start(action.unit)


@carried_out.register
def _leave_to_demand(action: do.LeaveToDemand, _run: Run, _left: list[str]) -> Iterator[PyinfraCommand]:
    yield StringCommand("systemctl disable --quiet", f"{action.unit}.service")


@carried_out.register
def _remove(action: do.Remove, _run: Run, _left: list[str]) -> Iterator[PyinfraCommand]:
    yield from units.remove(action.unit)


@carried_out.register
def _engine_started(action: do.EngineStarted, run: Run, _left: list[str]) -> Iterator[PyinfraCommand]:
    run.started.add(action.model, host.name)
    yield from ()


@carried_out.register
def _loading_begins(_action: do.LoadingBegins, run: Run, _left: list[str]) -> Iterator[PyinfraCommand]:
    run.clock.mark("started")
    yield from ()


@carried_out.register
def _let_cooldowns_end(_action: do.LetCooldownsEnd, _run: Run, _left: list[str]) -> Iterator[PyinfraCommand]:
    yield python_step(lambda _, host: _wait_for_cooldowns(host))


def _wait_for_cooldowns(where: Host) -> None:
    """An engine that has just come up is still left alone by the proxy: stopping the other one now would leave none."""
    where.log(f"waiting {TAKEN_BACK_S} s, until the proxy has taken every other engine back")
    gevent.sleep(TAKEN_BACK_S)


@carried_out.register
def _await_stand_in(action: do.AwaitStandIn, run: Run, _left: list[str]) -> Iterator[PyinfraCommand]:
    """What has been started is waited for. (What was down has been started from the new files, all at once.)"""
    renewed = [run.node(name) for name in action.renewed]
    problem = "\n".join(filter(None, (readiness.await_engine(run, action.model, other) for other in renewed)))
    if not renewed and not any(readiness.is_live(run, action.model, run.node(name)) for name in action.others):
        problem = "no other engine answers any more (`tandem status` says more); run the deploy again when one does"
    if problem:
        whose = f"the engine of {host.name} is not stopped, it may be the last that serves"
        yield fail(rollback.after(run, f"{whose}: {problem}"))
    elif renewed:
        run.started.stands_in = True


@carried_out.register
def _await_engine(action: do.AwaitEngine, run: Run, _left: list[str]) -> Iterator[PyinfraCommand]:
    """Bounded, explained, and ended early when it can't come any more."""
    if problem := readiness.await_engine(run, action.model, host):
        yield fail(rollback.after(run, problem))


@carried_out.register
def _all_answer(_action: do.AllAnswer, run: Run, _left: list[str]) -> Iterator[PyinfraCommand]:
    run.clock.mark("answers")
    yield from ()


@carried_out.register
def _forget_restarts(action: do.ForgetRestarts, _run: Run, _left: list[str]) -> Iterator[PyinfraCommand]:
    # Nothing on the node changes by it, so no look becomes stale.
    host.run_shell_command(units.reset_restart_count(action.unit), _sudo=True)
    yield from ()


@carried_out.register
def _take_up(action: do.TakeUp, run: Run, left: list[str]) -> Iterator[PyinfraCommand]:
    """It does so by itself. One that starts is waited for, and nothing of the node changes by that."""
    if not state.is_executing:
        return
    try:
        has = successors.has_taken_up(action.service, host)
    except (RuntimeError, OSError, PyinfraError) as error:
        yield fail(str(error))
        return
    # It may have waited for minutes.
    run.looks.forget()
    if not has:
        left.append(action.unit)


@carried_out.register
def _drain(action: do.Drain, run: Run, _left: list[str]) -> Iterator[PyinfraCommand]:
    yield python_step(partial(successors.drain, run, action.pulses, action.unit, action.others))


@carried_out.register
def _take_back(action: do.TakeBack, _run: Run, _left: list[str]) -> Iterator[PyinfraCommand]:
    yield StringCommand("python3", f"{folder_of(action.unit)}/undrain.py", ADMIN, haproxy_name(action.unit))


@carried_out.register
def _fix_secrets(_action: do.FixSecrets, _run: Run, _left: list[str]) -> Iterator[PyinfraCommand]:
    # Behind one that has run as root, which writes what this one may not read.
    yield put_secrets_right()


@carried_out.register
def _await_successor(action: do.AwaitSuccessor, run: Run, _left: list[str]) -> Iterator[PyinfraCommand]:
    yield python_step(partial(successors.answers, run, action.services))


@carried_out.register
def _reload(action: do.Reload, _run: Run, _left: list[str]) -> Iterator[PyinfraCommand]:
    yield StringCommand("systemctl reload", f"{action.unit}.service")


@carried_out.register
def _tell_addresses(action: do.TellAddresses, _run: Run, _left: list[str]) -> Iterator[PyinfraCommand]:
    words = [QuoteString(f"{name}={','.join(addresses)}") for name, addresses in action.known.items()]
    yield StringCommand("python3", "-B", f"{folder_of(OFFICE)}/office.py", "know", *words)
