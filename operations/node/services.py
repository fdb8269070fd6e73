"""Tandem's units and containers as they are, and images by content."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from operations.node.commands import docker_inspect, output, read

#: Tandem's units.
LITELLM = ("tandem-litellm-a", "tandem-litellm-b")
#: Those without a container.
PROGRAMS = (
    *("tandem-canary", "tandem-guard", "tandem-fallback", "tandem-exporter"),
    *("tandem-prometheus", "tandem-alertmanager", "tandem-page", "tandem-walls"),
)
UNITS = ("tandem-engine", "tandem-address", "tandem-proxy", *LITELLM, *PROGRAMS)
#: How the units of engines begin: of a model among several its name follows.
ENGINE = "tandem-engine"
#: Containers that Tandem makes: those of units, and the one that downloads a model (operations/node/hub.py).
_NAMES = (*UNITS, "tandem-download")
#: Which ports an engine has that is one of several.
_SLOTS = Path("/etc/tandem")
_UNIT_FILES = Path("/etc/systemd/system")
#: Where a program that takes no word of ours has its spec.
_SPEC = "TANDEM_SPEC="
_PROPERTIES = "ActiveState,SubState,UnitFileState,ActiveEnterTimestamp,NRestarts,Result,MainPID,ControlPID,InvocationID"


def main(units: Sequence[str], every_engine: bool = False) -> dict[str, Any]:
    """Of these units, and with `every_engine` of all engines that lie here. `units`: name -> systemd's properties, with
    the spec that it was started from, and topology and image id of its container where it has one; `strays`: containers
    of Tandem's, or under its names, that no unit has.
    """
    units = list(dict.fromkeys([*units, *(engines() if every_engine else [])]))
    containers = {c["Name"].lstrip("/"): c for c in docker_inspect("container", *_our_containers())}
    states = unit_states(units)
    for unit, state in states.items():
        waits = _spec_of(state.get("ControlPID", "0"))
        if unit in containers and not waits:
            state.update(_started_from(containers[unit]))
        else:
            state.update(waits or _spec_of(state.get("MainPID", "0")))
    own = {unit for unit, state in states.items() if state.get("UnitFileState")}
    return {"units": states, "strays": sorted(set(containers) - own)}


def engines() -> list[str]:
    """Units of engines that lie here, of whatever plan."""
    return sorted(file.stem for file in _UNIT_FILES.glob(f"{ENGINE}*.service"))


def with_engines(planned: Sequence[str] = ()) -> tuple[str, ...]:
    """Tandem's units, those of engines that are planned or lie here among them."""
    more = [unit for unit in dict.fromkeys([*planned, *engines()]) if unit != ENGINE]
    return (UNITS[0], *more, *UNITS[1:])


def slots() -> dict[str, int]:
    """Which ports the models have whose engines lie here, by the models' names."""
    found = {file.parent.name.removeprefix("engine-"): read(file).strip() for file in _SLOTS.glob("engine-*/slot")}
    return {name: int(text) for name, text in found.items() if text.isdecimal()}


def unit_states(units: Sequence[str]) -> dict[str, dict[str, str]]:
    """systemd's view of each unit."""
    names = [unit if unit.endswith(".slice") else f"{unit}.service" for unit in units]
    blocks = output("systemctl", "show", *names, f"--property={_PROPERTIES}").strip().split("\n\n")
    return {
        unit: dict(line.split("=", 1) for line in block.splitlines() if "=" in line)
        for unit, block in zip(units, [*blocks, *[""] * len(units)], strict=False)
    }


def _spec_of(pid: str) -> dict[str, str]:
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


def _started_from(container: dict[str, Any]) -> dict[str, str]:
    labels = container["Config"]["Labels"] or {}
    return {
        **{key: labels.get(f"tandem.{key}", "") for key in _LABELS},
        "image": container["Image"],
        "image_name": container["Config"]["Image"],
    }


def image_states(names: Sequence[str]) -> dict[str, dict[str, str]]:
    """Images that are there, by the name that was asked for."""
    found = {}
    for image in docker_inspect("image", *names):
        identity = {"id": image["Id"], "content": content_id(image), "architecture": image["Architecture"]}
        found.update({name: identity for name in names if name in image["RepoTags"]})
    return found


def content_id(image: dict[str, Any]) -> str:
    """A hash that is equal where the content is: layers and what a container gets from the config.

    The image ID is not: it differs for the same content between the overlay2 and the containerd store.
    """
    config = image.get("Config") or {}
    facts = {key: config.get(key) or None for key in ("Env", "Entrypoint", "Cmd", "WorkingDir", "User")}
    facts |= {"layers": image["RootFS"].get("Layers"), "architecture": image["Architecture"]}
    return hashlib.sha256(json.dumps(facts, sort_keys=True).encode()).hexdigest()


def _our_containers() -> list[str]:
    """Names of those with Tandem's label, and of those under its names; whatever else is called tandem-something is the
    owner's.
    """
    lines = output("docker", "ps", "--all", "--format", '{{.Names}}\t{{.Label "tandem.spec"}}').splitlines()
    return [name for name, _, spec in (line.partition("\t") for line in lines) if spec or name in _NAMES]
