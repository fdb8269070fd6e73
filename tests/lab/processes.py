"""Processes of the lab, found by their command lines: what started them may be gone."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

from tests.lab.shell import LabError


def matching(is_wanted: Callable[[list[str]], bool]) -> list[int]:
    """Process ids whose argv is the wanted one."""
    found = []
    for entry in Path("/proc").iterdir():
        if not entry.name.isdigit():
            continue
        try:
            argv = (entry / "cmdline").read_bytes().decode(errors="replace").split("\0")
        except OSError:
            continue
        if is_wanted(argv):
            found.append(int(entry.name))
    return found


def kill(is_wanted: Callable[[list[str]], bool]) -> None:
    """SIGKILL to all of them, and wait until they are gone; raises LabError."""
    deadline = time.monotonic() + 10
    while pids := matching(is_wanted):
        for pid in pids:
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        if time.monotonic() > deadline:
            raise LabError(f"processes do not die: {pids}")
        time.sleep(0.02)
