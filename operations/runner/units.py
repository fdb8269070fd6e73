"""Tandem's units on a node: compared with the plan by what really runs, stopped, placed and started."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from pyinfra import host
from pyinfra.api.command import PyinfraCommand, StringCommand

from operations.node.unit import services
from operations.paths import ENGINE, folder_of, run_folder, unit_file
from operations.plan.services import registry
from operations.plan.services.service import Program, Service
from operations.runner.managed_files import differs, place
from operations.runner.remote import ask
from operations.runner.run import Run, step
from operations.wire.look import FileState, Look
from operations.wire.model import Identity
from operations.wire.unit import UnitState

RUNNING = ("active", "activating", "reloading", "deactivating")


def unit_state(state: Look, unit: str) -> UnitState:
    """What a look says of a unit; nothing of one that is not here."""
    return state["services"]["units"].get(unit, {})


def engines(state: Look) -> list[str]:
    """Units of engines that are on a node, of whatever plan."""
    return [unit for unit in state["services"]["units"] if unit.startswith(ENGINE) and exists(state, unit)]


def is_running(state: Look, unit: str) -> bool:
    """Whether systemd has it up, or is about to."""
    return unit_state(state, unit).get("ActiveState") in RUNNING


def is_up(state: Look, unit: str) -> bool:
    """Whether it runs now, and will after a reboot."""
    return is_running(state, unit) and unit_state(state, unit).get("UnitFileState") == "enabled"


def differences(state: Look, service: Program) -> list[str]:
    """In what a unit is not the plan's, in a few words each; none where it runs as planned and will after a reboot."""
    if not is_running(state, service.unit):
        return ["does not run"]
    return [*_older(state, service), *([] if is_up(state, service.unit) else ["does not start at boot"])]


def is_stale(state: Look, service: Program) -> bool:
    """Whether what runs was started from another spec or from another image than the plan's."""
    return is_running(state, service.unit) and bool(_older(state, service))


def _older(state: Look, service: Program) -> list[str]:
    """In what a unit that runs was started from something else than the plan's.

    One rule for a container, a program, and a unit that waits in its ready.sh: what it was started from, whatever lies
    on disk by now. A unit between two starts has no spec: its next start is from the files that are there, so it is
    judged by them. (Left alone, a rank that met nobody for a moment came up with the files of the plan before.)
    """
    unit = unit_state(state, service.unit)
    if "spec" not in unit:
        return [f"other {Path(file.path).name}" for file in service.files if differs(file, state["files"])]
    if unit["spec"] != service.spec:
        return ["other settings"]
    if not isinstance(service, Service) or not has_container(state, service.unit):
        return []
    found = state["images"].get(service.image.local)
    image: Identity = found["image"] if found else {}
    return [] if unit["image"] == image.get("id") else ["other image"]


def has_container(state: Look, unit: str) -> bool:
    """Whether it may serve: what only waits for its start has none yet."""
    return "image" in state["services"]["units"][unit]


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


def exists(state: Look, unit: str) -> bool:
    """Whether the node knows the unit at all."""
    return bool(unit_state(state, unit).get("UnitFileState"))


def is_leftover(unit: str) -> bool:
    """Whether no service of this Tandem has such a unit: another one has left it."""
    return not unit.startswith(ENGINE) and unit not in registry.to_remove()


def has_restarted(state: Look, unit: str) -> bool:
    """Whether systemd has started it again since somebody last asked for it."""
    return int(unit_state(state, unit).get("NRestarts") or 0) > 0


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
