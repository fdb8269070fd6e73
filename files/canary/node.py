"""What the canary asks of the node. Nothing here may hang: a look that does not come back sees nothing any more."""

from __future__ import annotations

import json
import subprocess
import sys
import threading
import time
from collections.abc import Sequence
from pathlib import Path

#: Seconds for a word with systemd, Docker or the kernel.
WORD_S = 10.0
#: Seconds for Docker to kill a container; one that can't is asked again.
KILL_S = 30.0
#: Seconds for which what systemd said is kept: watches look eight times a second, and each ask starts a process.
HOLDS_S = 1.0
#: States of a unit that runs: a proxy serves while it reads its configuration anew.
RUNS = ("active", "reloading", "refreshing")
CGROUPS = Path("/sys/fs/cgroup")


def run(argv: Sequence[str], timeout_s: float = WORD_S) -> subprocess.CompletedProcess[str] | None:
    """A command that has ended in time; None: it is not there, or hangs."""
    try:
        return subprocess.run(argv, capture_output=True, text=True, timeout=timeout_s, check=False)
    except (OSError, subprocess.TimeoutExpired):
        return None


class Units:
    """Which units run, by one question to systemd for all of them."""

    def __init__(self) -> None:
        self._said: dict[str, str | None] = {}
        #: When the last ask began, and until when its answer is kept.
        self._asked = self._until = 0.0
        self._speaks = True
        self._lock = threading.Lock()

    def invocation(self, unit: str, afresh: bool = False) -> str | None:
        """The unit's invocation while it runs; empty: it does not; None: systemd does not say.

        An answer is kept for HOLDS_S; `afresh` asks again, unless systemd is silent.
        """
        came = time.monotonic()
        with self._lock:
            is_kept = time.monotonic() < self._until
            if is_kept and not self._speaks:
                return None
            if not is_kept or unit not in self._said or (afresh and self._asked < came):
                self._ask([*{**self._said, unit: None}])
            return self._said[unit]

    def _ask(self, units: Sequence[str]) -> None:
        self._asked = time.monotonic()
        names = [f"{unit}.service" for unit in units]
        done = run(["systemctl", "show", *names, "--property=ActiveState,InvocationID"])
        blocks = done.stdout.strip().split("\n\n") if done and done.returncode == 0 else []
        self._speaks = len(blocks) == len(units)
        self._said = dict.fromkeys(units)
        if self._speaks:
            states = [dict(line.partition("=")[::2] for line in block.splitlines()) for block in blocks]
            starts = [state.get("InvocationID", "") if state["ActiveState"] in RUNS else "" for state in states]
            self._said.update(zip(units, starts, strict=True))
        self._until = time.monotonic() + HOLDS_S


invocation = Units().invocation


def reset_restart_count(unit: str) -> None:
    """Its starts are counted from here: the next failure is a first one."""
    run(["systemctl", "reset-failed", f"{unit}.service"])


def kill(container: str) -> bool:
    """Whether Docker has killed it."""
    done = run(["docker", "kill", container], KILL_S)
    return done is not None and done.returncode == 0


def labels(container: str) -> dict[str, str]:
    """Those of a container; none: it is not there, or Docker does not say."""
    done = run(["docker", "inspect", "--format", "{{json .Config.Labels}}", container])
    try:
        said = json.loads(done.stdout) if done and done.returncode == 0 else {}
    except ValueError:
        return {}
    return said if isinstance(said, dict) else {}


def control_group(container: str) -> Path | None:
    """Where the kernel counts what all of its processes use; None: Docker or the kernel does not say."""
    done = run(["docker", "inspect", "--format", "{{.Id}}", container])
    identity = done.stdout.strip() if done else ""
    # As Docker names it with systemd's cgroup driver, and with its own.
    places = (CGROUPS / f"system.slice/docker-{identity}.scope", CGROUPS / f"docker/{identity}")
    return next((place for place in places if identity and place.is_dir()), None)


def cpu_s(group: Path | None) -> float:
    """CPU time of a control group so far, seconds; 0: nothing is known."""
    try:
        words = (group / "cpu.stat").read_text().split() if group else []
        return int(words[words.index("usage_usec") + 1]) / 1e6
    except (OSError, ValueError, IndexError):
        return 0.0


def no_socket(url: str) -> str:
    """Why nobody can listen at the URL of a socket: its folder is not there. Empty: somebody can."""
    folder = Path(url.removeprefix("unix:")).parent
    return "" if folder.is_dir() or not url.startswith("unix:") else f"nobody has made {folder} yet"


def say(text: str) -> None:
    """One line for the journal."""
    print(f"tandem: {text}", file=sys.stderr, flush=True)
