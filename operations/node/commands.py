"""Running commands on the node."""

from __future__ import annotations

import json
import os
import subprocess
from contextlib import suppress
from pathlib import Path

from operations.wire import Json


def output(*argv: str, timeout_s: float = 60) -> str:
    """Standard output of a command; empty when it is not there, fails or takes too long."""
    try:
        done = subprocess.run(argv, capture_output=True, text=True, timeout=timeout_s, check=False)
    except (OSError, subprocess.TimeoutExpired):
        return ""
    return done.stdout if done.returncode == 0 else ""


def docker_inspect(kind: str, *names: str) -> list[Json]:
    """What Docker knows of those that exist; the others are left out."""
    if not names:
        return []
    try:
        argv = ["docker", kind, "inspect", *names]
        done = subprocess.run(argv, capture_output=True, text=True, timeout=60, check=False)
    except (OSError, subprocess.TimeoutExpired):
        return []
    # With one name missing Docker still prints the others, and ends with 1.
    found: list[Json] = json.loads(done.stdout or "[]")
    return found


def own_containers() -> list[str]:
    """Ids of Tandem's containers that run."""
    return output("docker", "ps", "--no-trunc", "--filter", "name=^tandem-", "--format", "{{.ID}}").split()


def docker_root() -> Path:
    """Where Docker keeps images."""
    return Path(output("docker", "info", "--format", "{{.DockerRootDir}}").strip() or "/var/lib/docker")


def open_files() -> set[str]:
    """Paths that processes hold open, as far as they can be seen."""
    found = set()
    for process in (each for each in Path("/proc").iterdir() if each.name.isdigit()):
        # Processes end while they are looked at, and some are not ours to look into.
        with suppress(OSError):
            for held in (process / "fd").iterdir():
                with suppress(OSError):
                    found.add(os.readlink(held))
    return found


def read(path: Path) -> str:
    """Text of a small file; empty when it can't be read."""
    try:
        return path.read_text(errors="replace").strip()
    except OSError:
        return ""
