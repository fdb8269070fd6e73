"""What is mounted below a folder, and letting go of it before the folder is deleted."""

from __future__ import annotations

import time
from pathlib import Path

from tests.lab.shell import LabError, run


def below(folder: Path) -> list[str]:
    """Mount points in a folder, the folder itself included, the deepest last."""
    mounts = [line.split()[1] for line in Path("/proc/mounts").read_text().splitlines()]
    return sorted(mount for mount in mounts if mount == str(folder) or mount.startswith(f"{folder}/"))


def release(folder: Path) -> None:
    """Unmount everything in a folder; raises LabError that names what can't be."""
    deadline = time.monotonic() + 10
    while held := below(folder):
        for mount in reversed(held):
            run("umount", mount, check=False)
        if below(folder) and time.monotonic() > deadline:
            raise LabError(f"{held[0]} can't be unmounted; `fuser -vm {held[0]}` names who holds it")
        time.sleep(0.1)
