"""Who else holds what Tandem wants: its ports, and the GPU."""

from __future__ import annotations

from pathlib import Path

from operations.node.commands import own_containers, read
from operations.node.look.survey import listeners
from operations.node.machine import gpu
from operations.wire.doctor import Holders


def main(watched: list[int]) -> Holders:
    """`ports`: listeners on the watched ports that are not Tandem's; `gpu`: processes on the GPU that are not."""
    containers = own_containers()
    return {
        "ports": [each for each in listeners() if each["port"] in watched and not each["ours"]],
        "gpu": [each for each in gpu.processes() if not _is_in(each["pid"], containers)],
    }


def _is_in(pid: str, containers: list[str]) -> bool:
    cgroup = read(Path(f"/proc/{pid}/cgroup"))
    return any(container in cgroup for container in containers)
