"""Tandem's units on a node: placed, started, stopped and removed."""

from __future__ import annotations

from collections.abc import Iterator

from pyinfra import host
from pyinfra.api.command import PyinfraCommand, StringCommand

from operations.node.unit import services
from operations.paths import ENGINE, folder_of, run_folder, unit_file
from operations.plan.decide.unit_state import differences, is_leftover, is_stale
from operations.plan.services.service import Program
from operations.runner.managed_files import place
from operations.runner.remote import ask
from operations.runner.run import Run, step
from operations.wire.look import FileState, Look


def stop(unit: str) -> StringCommand:
    """Stop a unit and wait until it has ended."""
    return StringCommand("systemctl stop", f"{unit}.service")


def place_service(service: Program, present: dict[str, FileState]) -> Iterator[PyinfraCommand]:
    """The files of a unit; systemd reads its unit again when that changed, and the links of one that is enabled follow
    its [Install] section: `enabled` is also a unit with the links of yesterday's.
    """
    reload = False
    for command in place(service.files, present, folder_of(service.unit)):
        reload = reload or f"{service.unit}.service" in str(command)
        yield command
    if reload:
        name = f"{service.unit}.service"
        yield StringCommand("systemctl daemon-reload")
        yield StringCommand(f"if systemctl is-enabled --quiet {name}; then systemctl reenable --quiet {name}; fi")


def remove(unit: str, *more: str) -> Iterator[PyinfraCommand]:
    """Take away a unit that the plan does not have here: process, container, files. Images, models and secrets stay.
    `more`: commands that end it. All in one go, and systemd reads its units once: another node's engine may wait for
    this with its start.
    """
    name = f"{unit}.service"
    steps = [
        f"systemctl --no-reload disable --now --quiet {name}",
        f"rm -rf {unit_file(unit)} /run/systemd/system/{name}.d",
        f"find {folder_of(unit)} -maxdepth 1 -type f -delete",
        f"rm -rf {run_folder(unit)} {run_folder(unit)}.cid",
        "systemctl daemon-reload",
    ]
    yield StringCommand(" && ".join([*steps, f"{{ systemctl reset-failed --quiet {name} || true; }}", *more]))


def reset_restart_count(unit: str) -> StringCommand:
    """Count its starts from here."""
    return StringCommand("systemctl reset-failed --quiet", f"{unit}.service 2>/dev/null || true")


def start(unit: str) -> Iterator[StringCommand]:
    """Start now and at each boot; a burst that was used up is forgiven, the owner has just asked."""
    yield reset_restart_count(unit)
    yield StringCommand("systemctl enable --quiet", f"{unit}.service && systemctl start --no-block", f"{unit}.service")


def renew(
    state: Look, service: Program, anew: bool = False, before: PyinfraCommand | None = None
) -> Iterator[PyinfraCommand]:
    """Have a unit run from the files that are there; nothing where it does, and is not wanted `anew`. `before` is run
    when it is about to start.
    """
    if not anew and not differences(state, service):
        return
    if anew or is_stale(state, service):
        yield stop(service.unit)
    if before:
        yield before
    yield from start(service.unit)


@step
def take_down(_run: Run, names: list[str], leftovers: bool = False) -> Iterator[PyinfraCommand]:
    """Remove units that are here, all engines with the one of that name; with `leftovers` also what no service has."""
    found = ask(host, services.main, units=names, all_here=ENGINE in names)["units"]
    engines = [name for name in found if name.startswith(f"{ENGINE}-")]
    order = [name for name in found if leftovers and is_leftover(name)]
    order += [unit for name in names for unit in ([name, *engines] if name == ENGINE else [name])]
    here = [name for name in order if found[name].get("UnitFileState")]
    for name in here:
        yield from remove(name)
    if not here:
        host.noop("nothing of Tandem's is here")
