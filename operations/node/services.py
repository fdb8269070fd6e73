"""Tandem's units and containers as they are, and the images that the plan names."""

from __future__ import annotations

import hashlib
import json
from typing import Any

from operations.node.commands import docker_inspect, output

_PROPERTIES = ("ActiveState", "SubState", "UnitFileState", "ActiveEnterTimestamp", "NRestarts", "Result")


def main(units: list[str], images: list[str]) -> dict[str, Any]:
    """`units`: name -> systemd's properties, with spec, topology and image id of its container;
    `strays`: containers named tandem-* that no unit has; `images`: name -> {id, content, architecture}.
    """
    containers = {c["Name"].lstrip("/"): c for c in docker_inspect("container", *_our_containers())}
    return {
        "units": {unit: unit_state(unit, containers.get(unit)) for unit in units},
        "strays": sorted(set(containers) - set(units)),
        "images": image_states(images),
    }


def unit_state(unit: str, container: dict[str, Any] | None) -> dict[str, str]:
    """systemd's view of a unit, and what its container was started from."""
    text = output("systemctl", "show", f"{unit}.service", f"--property={','.join(_PROPERTIES)}")
    state = dict(line.split("=", 1) for line in text.splitlines() if "=" in line)
    if container:
        labels = container["Config"]["Labels"] or {}
        state["spec"] = labels.get("tandem.spec", "")
        state["topology"] = labels.get("tandem.topology", "")
        state["recipe"] = labels.get("tandem.recipe", "")
        state["image"] = container["Image"]
        state["image_name"] = container["Config"]["Image"]
    return state


def image_states(names: list[str]) -> dict[str, dict[str, str]]:
    """Images that are there, by the name that was asked for."""
    found = {}
    for name in names:
        for image in docker_inspect("image", name):
            found[name] = {"id": image["Id"], "content": content_id(image), "architecture": image["Architecture"]}
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
