"""Tandem's units and containers as they are, and images by content."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from operations.node.commands import docker_inspect, output, read

#: Tandem's units.
UNITS = ("tandem-engine", "tandem-proxy", "tandem-canary", "tandem-guard")
#: Those without a container: the last word of their command line is their spec.
PROGRAMS = UNITS[2:]
_PROPERTIES = ("ActiveState", "SubState", "UnitFileState", "ActiveEnterTimestamp", "NRestarts", "Result", "MainPID")


def main(units: Sequence[str]) -> dict[str, Any]:
    """`units`: name -> systemd's properties, with spec, topology and image id of its container, or the spec that its
    program was started with; `strays`: containers named tandem-* that no unit has.
    """
    containers = {c["Name"].lstrip("/"): c for c in docker_inspect("container", *_our_containers())}
    states = unit_states(units)
    for unit, state in states.items():
        if unit in containers:
            state.update(_started_from(containers[unit]))
        elif unit in PROGRAMS and state.get("MainPID", "0") != "0":
            state["spec"] = read(Path(f"/proc/{state['MainPID']}/cmdline")).rstrip("\0").rpartition("\0")[2]
    return {"units": states, "strays": sorted(set(containers) - set(units))}


def unit_states(units: Sequence[str]) -> dict[str, dict[str, str]]:
    """systemd's view of each unit."""
    names = [f"{unit}.service" for unit in units]
    blocks = output("systemctl", "show", *names, f"--property={','.join(_PROPERTIES)}").strip().split("\n\n")
    return {
        unit: dict(line.split("=", 1) for line in block.splitlines() if "=" in line)
        for unit, block in zip(units, [*blocks, *[""] * len(units)], strict=False)
    }


def _started_from(container: dict[str, Any]) -> dict[str, str]:
    labels = container["Config"]["Labels"] or {}
    return {
        **{key: labels.get(f"tandem.{key}", "") for key in ("spec", "topology", "recipe", "url", "model")},
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
    names = output("docker", "ps", "--all", "--filter", "name=^tandem-", "--format", "{{.Names}}")
    return names.split()
