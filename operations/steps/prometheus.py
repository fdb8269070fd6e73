"""Prometheus and Alertmanager on the head: behind everything else, and no model waits for them."""

from __future__ import annotations

import hashlib
import time
from collections.abc import Iterator, Sequence
from functools import partial

import gevent
from pyinfra import host, logger, state
from pyinfra.api.command import PyinfraCommand, QuoteString, StringCommand
from pyinfra.api.host import Host
from pyinfra.api.state import State

from operations.node.monitoring import monitors as node_monitors
from operations.node.monitoring.monitors import REFUSED
from operations.paths import ALARM_SECRETS, ALERTMANAGER, PROMETHEUS
from operations.plan.config.alarms import secret_files, secret_text
from operations.plan.config.files import as_is
from operations.plan.decide.unit_state import exists
from operations.plan.services.service import Program
from operations.runner import units
from operations.runner.patience import beat, python_step
from operations.runner.remote import ask
from operations.runner.run import Run, step
from operations.wire.look import Look

#: Seconds for Prometheus to read what it has kept, and to answer.
READY_S = 60
INSTALL = as_is("monitoring/install.sh")


@step
def watch(run: Run) -> Iterator[PyinfraCommand]:
    """Prometheus and Alertmanager of the head, as planned; whatever is wrong with them is a warning."""
    mine, found = run.plan.of(host.name).services, run.look(host)
    wanted = [mine[unit] for unit in (ALERTMANAGER, PROMETHEUS) if unit in mine]
    if not wanted:
        yield from _taken_away(found)
        return
    if found["missing"] and found["refused"]:
        host.noop("apt had no packages for them a while ago")
        return
    if packages := found["missing"]:
        yield python_step(partial(_install, packages))
        if state.is_executing and run.look(host)["missing"]:
            return
    is_new = False
    for command in _secrets(run, run.look(host)["secrets"]):
        is_new = True
        yield command
    started = []
    for program in wanted:
        yield from units.place_service(program, run.look(host)["files"])
        found = run.look(host)
        commands = list(units.renew(found, program, anew=is_new and program.unit == ALERTMANAGER))
        yield from commands
        if commands:
            started.append(program)
    if started:
        yield python_step(partial(_answer, started))
    else:
        host.noop("they keep and send")


def _taken_away(found: Look) -> Iterator[PyinfraCommand]:
    here = [unit for unit in (PROMETHEUS, ALERTMANAGER) if exists(found, unit)]
    for unit in here:
        yield from units.remove(unit)
    if any(path.startswith(f"{ALARM_SECRETS}/") for path in found["secrets"]):
        yield StringCommand("rm -rf", ALARM_SECRETS)
    elif not here:
        host.noop("nothing is kept here")


def _secrets(run: Run, known: dict[str, str]) -> Iterator[PyinfraCommand]:
    """Passwords and tokens, compared by hash; on standard input, which nothing logs."""
    wanted = {
        f"{ALARM_SECRETS}/{name}": secret_text(file) for name, file in secret_files(run.plan.knobs.alarms).items()
    }
    for path, text in wanted.items():
        if known.get(path) != hashlib.sha256(text.encode()).hexdigest():
            yield python_step(partial(_hand_over, path, text))
    for path in known:
        if path.startswith(f"{ALARM_SECRETS}/") and path not in wanted:
            yield StringCommand("rm -f", QuoteString(path))


def _hand_over(path: str, text: str, _state: State, where: Host) -> bool:
    # What is sent gets a newline at its end, which is no part of a password.
    take = f"install -d -m 700 {ALARM_SECRETS} && umask 077 && tr -d '\\n' > {path}.part && mv {path}.part {path}"
    done, _ = where.run_shell_command(StringCommand(take), _sudo=True, _stdin=f"{text}\n")
    return done


def _install(packages: Sequence[str], _state: State, where: Host) -> bool:
    """The distribution's packages; without them the deploy goes on."""
    with beat(where, f"installs {', '.join(packages)}"):
        done, output = where.run_shell_command(
            StringCommand("sh -c", QuoteString(INSTALL), "sh", str(REFUSED), *packages), _sudo=True
        )
    if not done:
        last = next((line for line in reversed(output.stderr_lines) if line.strip()), "no word of why")
        remedy = f"sudo apt update && sudo apt install --no-install-recommends {' '.join(packages)}, and `tandem apply`"
        logger.warning(f"{where.name}: nothing keeps metrics or sends alarms, no packages came ({last}); {remedy}")
    return True


def _answer(programs: Sequence[Program], _state: State, where: Host) -> bool:
    """Wait until they answer, and say which do not."""
    names, until = [program.unit for program in programs], time.monotonic() + READY_S
    while any((problems := ask(where, node_monitors.main, units=names)).values()) and time.monotonic() < until:
        gevent.sleep(2)
    for unit, why in problems.items():
        if why:
            logger.warning(f"{where.name}: {unit} does not answer ({why}): sudo journalctl -u {unit}; the model serves")
    return True
