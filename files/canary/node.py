"""What the canary asks of the node. Nothing here may hang: a look that does not come back sees nothing any more."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

#: Seconds for a word with systemd, Docker or the kernel.
WORD_S = 10.0
#: Seconds for Docker to kill a container; one that can't is asked again.
KILL_S = 30.0
CGROUPS = Path("/sys/fs/cgroup")


def run(argv: Sequence[str], timeout_s: float = WORD_S) -> subprocess.CompletedProcess[str] | None:
    """A command that has ended in time; None: it is not there, or hangs."""
    try:
        return subprocess.run(argv, capture_output=True, text=True, timeout=timeout_s, check=False)
    except (OSError, subprocess.TimeoutExpired):
        return None


def invocation(unit: str) -> str | None:
    """The unit's invocation while it is active; empty: it is not; None: systemd does not say."""
    done = run(["systemctl", "show", f"{unit}.service", "--property=ActiveState,InvocationID", "--value"])
    words = done.stdout.split() if done and done.returncode == 0 else []
    if not words:
        return None
    return next((word for word in words if word != "active"), "") if "active" in words else ""


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
