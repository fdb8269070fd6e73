"""Where a run was measured from."""

from __future__ import annotations

import os
import platform
import subprocess
from importlib.metadata import version

from bench.process import ROOT


def environment() -> dict[str, str]:
    """Tandem's commit, and the controller with its client; as text by name."""
    return {
        "tandem": _commit(),
        "controller": f"{platform.system()} {platform.release()}, {platform.machine()}, {os.cpu_count()} cores",
        "python": platform.python_version(),
        "aiohttp": version("aiohttp"),
    }


def _commit() -> str:
    """With `+` where files differ from it; empty outside of a repository."""
    argv = ["git", "describe", "--always", "--abbrev=12", "--dirty=+", "--exclude=*"]
    try:
        return subprocess.run(argv, cwd=ROOT, capture_output=True, text=True, check=False).stdout.strip()
    except OSError:
        return ""
