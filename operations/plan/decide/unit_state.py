"""Units of a node, compared with the plan by what really runs."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from operations.paths import ENGINE, FORMER_FIREWALL, folder_of
from operations.plan.config.files import File
from operations.plan.services import registry
from operations.plan.services.service import Program, Service
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
    return is_running(state, unit) and starts_at_boot(state, unit)


def differences(state: Look, service: Program) -> list[str]:
    """In what a unit is not the plan's, in a few words each; none where it runs as planned and will after a reboot. One
    that another program starts may be down.
    """
    if not is_running(state, service.unit):
        return ["does not run"] if service.at_boot else []
    is_meant = is_up(state, service.unit) or not service.at_boot
    return [*_older(state, service), *([] if is_meant else ["does not start at boot"])]


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


def starts_at_boot(state: Look, unit: str) -> bool:
    """Whether systemd starts it at a boot."""
    return unit_state(state, unit).get("UnitFileState") == "enabled"


def exists(state: Look, unit: str) -> bool:
    """Whether the node knows the unit at all."""
    return bool(unit_state(state, unit).get("UnitFileState"))


def is_leftover(unit: str) -> bool:
    """Whether no service of this Tandem has such a unit: another one has left it."""
    return not unit.startswith(ENGINE) and unit not in (*registry.to_remove(), FORMER_FIREWALL)


def has_restarted(state: Look, unit: str) -> bool:
    """Whether systemd has started it again since somebody last asked for it."""
    return int(unit_state(state, unit).get("NRestarts") or 0) > 0


def differs(file: File, present: dict[str, FileState]) -> bool:
    """Whether a file is missing, or has another content or mode."""
    found = present.get(file.path)
    return not found or found["sha256"] != file.sha256 or found["mode"] != file.mode


def strays(files: Sequence[File], present: dict[str, FileState], folder: str) -> list[str]:
    """What lies in a unit's folder and is none of its files."""
    planned = {file.path for file in files}
    return sorted(path for path in present if path.startswith(f"{folder}/") and path not in planned)


def out_of_place(service: Program, present: dict[str, FileState]) -> tuple[str, ...]:
    """Paths of a unit's files that are to be written or removed."""
    changed = (file.path for file in service.files if differs(file, present))
    return (*changed, *strays(service.files, present, folder_of(service.unit)))
