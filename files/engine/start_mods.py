"""Mods that act on what runs: `start_mods.py NAME...`, in the container, before the engine's first command.

Each mod's run.sh runs in the order of the recipe. A name that is a path is a hook's: a script by itself. One that
fails ends the start, and its name is the last line of the log. A run.sh may leave programs running. A process of its
own watches them, and logs the end of each. The engine goes on then, as it does with the tools that these mods are
written for. Everything ends with the container.
"""

from __future__ import annotations

import ctypes
import os
import signal
import subprocess
import sys
from pathlib import Path

FOLDER = Path("/workspace/mods")
#: What sparkrun mounts, and where Tandem has the same: compiled kernels, which outlive the container; the store.
SPARKRUN = {"/cache/runtime": "/root/.cache", "/cache/huggingface/hub": "/hub"}
_PR_SET_CHILD_SUBREAPER = 36


def say(text: str) -> None:
    """One line for the journal."""
    print(f"tandem: {text}", file=sys.stderr, flush=True)


def run(name: str, place: Path) -> int:
    """The mod's run.sh, or a hook's script, as the tools that it is written for run it; its exit code."""
    say(f"the mod {name}")
    if place.is_file():
        return subprocess.run(["bash", str(place)], check=False).returncode
    # By a shell: it also starts a script whose first line names no program.
    script = 'export WORKSPACE_DIR="$PWD"; cd "$1" && ./run.sh'
    return subprocess.run(["bash", "-c", script, "bash", str(place)], check=False).returncode


def children() -> dict[int, str]:
    """Processes whose parent is this one: number and command line."""
    found = {}
    for stat in Path("/proc").glob("[0-9]*/stat"):
        try:
            if int(stat.read_text().rpartition(")")[2].split()[1]) == os.getpid():
                line = (stat.parent / "cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace")
                found[int(stat.parent.name)] = " ".join(line.split())[:120]
        except (OSError, ValueError, IndexError):
            continue
    return found


def watch(left: dict[int, tuple[str, str]]) -> None:
    """Until nothing is left of what the mods have started: say what ends. Keys are numbers of processes."""
    while True:
        try:
            number, status = os.wait()
        except ChildProcessError:
            return
        name, line = left.pop(number, ("", ""))
        if name:
            code = os.waitstatus_to_exitcode(status)
            how = f"signal {signal.Signals(-code).name}" if code < 0 else f"code {code}"
            say(f"what the mod {name} has left running has failed: `{line}` ended with {how}")


def main(names: list[str], folder: Path = FOLDER) -> int:
    """Runs them; returns as soon as all have been run, with 0, or the code of the first that failed."""
    for place, target in SPARKRUN.items():
        if not os.path.lexists(place) and os.path.isdir(target):
            os.makedirs(os.path.dirname(place), exist_ok=True)
            os.symlink(target, place)
    told, tell = os.pipe()
    if os.fork():
        os.close(tell)
        with os.fdopen(told, "rb") as answer:
            # Nothing: the process has been killed.
            return (answer.read(1) or b"\x01")[0]
    os.close(told)
    # What loses its parent becomes a child of this process, which can see how it ends.
    ctypes.CDLL(None).prctl(_PR_SET_CHILD_SUBREAPER, 1)
    left: dict[int, tuple[str, str]] = {}
    for name in names:
        if code := run(name, folder / name):
            say(f"the mod {name} has failed with {code}: the engine is not started")
            os.write(tell, bytes([code & 0xFF or 1]))
            os._exit(1)
        left |= {number: (name, line) for number, line in children().items() if number not in left}
    os.write(tell, b"\0")
    os.close(tell)
    watch(left)
    os._exit(0)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
