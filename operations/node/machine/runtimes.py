"""The versions of what runs containers on this node."""

from __future__ import annotations

import json
import re

from operations.node.commands import output

_NAMES = {"Engine": "docker", "containerd": "containerd", "runc": "runc"}


def main() -> dict[str, str]:
    """name -> version of Docker, containerd, runc and NVIDIA's toolkit; those that are not here are left out."""
    try:
        said = json.loads(output("docker", "version", "--format", "{{json .Server.Components}}") or "[]")
    except ValueError:
        said = []
    found = {_NAMES[each["Name"]]: str(each["Version"]) for each in said or () if each.get("Name") in _NAMES}
    toolkit = re.search(r"version:? v?(\d[\w.~-]*)", output("nvidia-ctk", "--version"))
    return found | ({"nvidia-container-toolkit": toolkit[1]} if toolkit else {})
