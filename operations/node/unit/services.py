"""Tandem's units and containers as they are."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path
from typing import cast

from operations.node.commands import docker_inspect, output, read
from operations.node.network import office
from operations.paths import AUTHORITY, DOWNLOAD, ENGINE, ETC, PROXY, PROXY_MODEL, SLOT, SYSTEMD, TLS, folder_of
from operations.wire import Json
from operations.wire.unit import Services, UnitState

#: Folders of units; that of an engine that is one of several says which ports it has.
_FOLDERS = Path(ETC)
#: Folders there that are no unit's.
_NO_UNITS = {Path(AUTHORITY).name, Path(TLS).name}
_UNIT_FILES = Path(SYSTEMD)
#: What the engine is started by; of several models each has its own.
_RUN = Path(folder_of(ENGINE)) / "run.sh"
#: Where a program that takes no word of ours has its spec.
_SPEC = "TANDEM_SPEC="
_PROPERTIES = "ActiveState,SubState,UnitFileState,ActiveEnterTimestamp,NRestarts,Result,MainPID,ControlPID,InvocationID"


def main(units: Sequence[str], all_here: bool = False) -> Services:
    """State of these units; with `all_here`, of all that lie here.

    Returns `units`: name -> systemd's properties, with the spec that it was started from, and topology and image id of
    its container where it has one; and `strays`: containers of Tandem's, or under its names, that no unit has.
    """
    units = list(dict.fromkeys([*units, *(installed() if all_here else [])]))
    containers = {c["Name"].lstrip("/"): c for c in docker_inspect("container", *_our_containers(units))}
    states = unit_states(units)
    for unit, state in states.items():
        waits = _spec_of(state.get("ControlPID", "0"))
        if unit in containers and not waits:
            state.update(_started_from(containers[unit]))
            if unit == PROXY:
                # Models come and go while it runs: its container does not know them.
                state["model"] = read(Path(PROXY_MODEL)) or state["model"]
        else:
            state.update(waits or _spec_of(state.get("MainPID", "0")))
    own = {unit for unit, state in states.items() if state.get("UnitFileState")}
    return {"units": states, "strays": sorted(set(containers) - own)}


def engines() -> list[str]:
    """Units of engines that lie here, of whatever plan."""
    return sorted(file.stem for file in _UNIT_FILES.glob(f"{ENGINE}*.service"))


def installed() -> list[str]:
    """Tandem's units that lie here, of whatever plan, and of whatever Tandem: each has a folder of its own in ETC.
    Whatever else is called tandem-something is the owner's.
    """
    names = sorted(file.stem for file in _UNIT_FILES.glob("tandem-*.service"))
    parts = [(name, name.removeprefix("tandem-")) for name in names]
    return [name for name, folder in parts if folder not in _NO_UNITS and (_FOLDERS / folder).is_dir()]


def with_engines(units: Sequence[str], planned: Sequence[str] = ()) -> tuple[str, ...]:
    """These units of Tandem's, behind those of engines that are planned or lie here; last what else lies here."""
    return tuple(dict.fromkeys([ENGINE, *planned, *engines(), *units, *installed()]))


def slots() -> dict[str, int]:
    """Which ports the models have whose engines lie here, by the models' names."""
    found = {file.parent.name.removeprefix("engine-"): read(file).strip() for file in _FOLDERS.glob(f"engine-*/{SLOT}")}
    return {name: int(text) for name, text in found.items() if text.isdecimal()}


def deployed(run: Path = _RUN) -> str:
    """The topology of the engine that lies here, whether it runs or not."""
    found = re.search(r"tandem\.topology=(\w+)", read(run))
    return found.group(1) if found else ""


def unit_states(units: Sequence[str]) -> dict[str, UnitState]:
    """systemd's view of each unit."""
    names = [unit if unit.endswith(".slice") else f"{unit}.service" for unit in units]
    blocks = output("systemctl", "show", *names, f"--property={_PROPERTIES}").strip().split("\n\n")
    return {
        unit: cast("UnitState", dict(line.split("=", 1) for line in block.splitlines() if "=" in line))
        for unit, block in zip(units, [*blocks, *[""] * len(units)], strict=False)
    }


def _spec_of(pid: str) -> UnitState:
    """`spec`, where a process of a unit has one: behind ready.sh or a program, in the label that `docker run` will give
    its container, or in its environment. Empty: this process has none.
    """
    words = read(Path(f"/proc/{pid}/cmdline")).rstrip("\0").split("\0")
    for word, following in zip(words, [*words[1:], ""], strict=True):
        if word.startswith("tandem.spec="):
            return {"spec": word.partition("=")[2]}
        if word.endswith((".py", "/ready.sh")):
            return {"spec": following}
    # What takes no word of ours has it in its environment.
    environment = read(Path(f"/proc/{pid}/environ")).split("\0")
    spec = next((each.removeprefix(_SPEC) for each in environment if each.startswith(_SPEC)), "")
    return {"spec": spec} if spec else {}


#: Labels of Tandem's containers.
_LABELS = ("spec", "topology", "group", "recipe", "url", "model", "pulse", "address")


def _started_from(container: Json) -> UnitState:
    labels = container["Config"]["Labels"] or {}
    said = cast("UnitState", {key: labels.get(f"tandem.{key}", "") for key in _LABELS})
    said["url"] = office.live(said["url"])
    return {
        **said,
        "image": container["Image"],
        "image_name": container["Config"]["Image"],
    }


def _our_containers(units: Sequence[str]) -> list[str]:
    """Names of Tandem's containers: with its label, under a name of `units`, or the one that downloads a model.

    Any other container called tandem-something is the owner's.
    """
    lines = output("docker", "ps", "--all", "--format", '{{.Names}}\t{{.Label "tandem.spec"}}').splitlines()
    return [name for name, _, spec in (line.partition("\t") for line in lines) if spec or name in (*units, DOWNLOAD)]
