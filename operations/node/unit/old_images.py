"""Images of Tandem's that neither the plan, nor the one that served before it, nor a unit on this node needs."""

from __future__ import annotations

import glob
import re
from collections.abc import Sequence
from pathlib import Path

from operations.node.commands import docker_inspect, output, read
from operations.node.unit import served
from operations.paths import ETC
from operations.wire.unit import OldImage, OldImages

#: Where the units' docker commands are; the image that one names is needed, also while the unit is down.
COMMANDS = f"{ETC}/*/run.sh"
_OURS = r"tandem/\w+:[0-9a-f]{12}"


def main(keep: Sequence[str], remove: bool = False) -> OldImages:
    """`images`: {name, mb} that are not needed; with `remove`, `removed`: their names, and `problems`."""
    needed = {name for path in glob.glob(COMMANDS) for name in re.findall(rf"\b{_OURS}\b", read(Path(path)))} | {
        *keep,
        *served.images(),
    }
    names = output("docker", "images", "--format", "{{.Repository}}:{{.Tag}}").split()
    old = sorted(name for name in names if re.fullmatch(_OURS, name) and name not in needed)
    removed, problems = list[str](), list[str]()
    # Layers that images share count for each of them: what is freed is at most this.
    images: list[OldImage] = [{"name": name, "mb": round(_size(name) / 1e6)} for name in old]
    for name in old if remove else []:
        # Without --force: an image that a container was started from stays.
        if output("docker", "rmi", name, timeout_s=600):
            removed.append(name)
        else:
            problems.append(f"{name} is still in use: docker ps --all --filter ancestor={name}")
    return {"images": images, "removed": removed, "problems": problems}


def _size(name: str) -> int:
    found = docker_inspect("image", name)
    return int(found[0].get("Size", 0)) if found else 0
