"""The memory guard: kills an engine's container before unified memory runs out, because then the whole node freezes.

The kernel's own OOM killer and earlyoom choose a process by what it has resident. What a GPU has of unified memory is
in no process's figure, so they may take sshd, or one of the engine's processes, whose others stay and keep the memory.
And earlyoom waits until swap has gone as well. Here only MemAvailable counts, and only a whole container is ever
killed, all of it at once. The owner's last engine goes first. Before any engine goes a program that has grown by what
somebody sends to it: an engine loads for minutes, and is no stranger's to end.

Runs on the node as `guard.py SPEC`; guard.json beside it has `floor_mib`, `containers`: by the engines' units, in the
order in which they are killed, the file that says which container it is, and `before`: by unit {container, usual_mib,
idle_mib} of those that are killed before any engine: one that has more than is usual, and, where enough would be there
if they all were idle, the one that has grown most.
"""

from __future__ import annotations

import ctypes
import json
import os
import re
import signal
import subprocess
import sys
import time
from pathlib import Path

#: Seconds between looks.
LOOK_S = 0.1
#: Seconds after a kill before the next: memory comes back some time after its process is gone.
PAUSE_S = 10
#: Seconds that Docker may take for a kill.
DOCKER_S = 5
CGROUPS = Path("/sys/fs/cgroup")
_MCL_CURRENT_AND_FUTURE = 3


def main() -> int:
    """Look, for ever."""
    wanted = json.loads(Path(__file__).with_name("guard.json").read_text())
    floor = int(wanted["floor_mib"])
    containers = {unit.removeprefix("tandem-"): Path(file) for unit, file in wanted["containers"].items()}
    before = {
        unit.removeprefix("tandem-"): (Path(each["container"]), int(each["usual_mib"]), int(each["idle_mib"]))
        for unit, each in wanted["before"].items()
    }
    # A guard that has to be read back from swap comes too late.
    ctypes.CDLL(None).mlockall(_MCL_CURRENT_AND_FUTURE)
    meminfo = os.open("/proc/meminfo", os.O_RDONLY)
    say(f"the {', then the '.join(containers)} is killed when less than {floor} MiB are available")
    while True:
        left = available_mib(os.pread(meminfo, 4096, 0).decode())
        if left >= floor:
            time.sleep(LOOK_S)
        elif (grown := most_grown(before, CGROUPS, floor - left)) and kill(before[grown][0], CGROUPS):
            say(f"MemAvailable was {left} MiB, less than {floor} MiB: the {grown}'s container has grown, it is killed")
            # What it had comes back at once: it is nobody's but the kernel's.
            time.sleep(PAUSE_S / 10)
        elif unit := next((unit for unit, file in containers.items() if kill(file, CGROUPS)), ""):
            say(f"MemAvailable was {left} MiB, less than {floor} MiB: the {unit}'s container is killed")
            time.sleep(PAUSE_S)
        else:
            # No engine to kill: it is somebody else who has the memory.
            time.sleep(PAUSE_S / 10)


def available_mib(meminfo: str) -> int:
    """MemAvailable of /proc/meminfo's text, MiB."""
    found = re.search(r"^MemAvailable:\s+(\d+) kB", meminfo, re.MULTILINE)
    return int(found.group(1)) // 1024 if found else sys.maxsize


def most_grown(before: dict[str, tuple[Path, int, int]], cgroups: Path, lack_mib: int) -> str:
    """The one that is furthest beyond what it usually has. Where none is, and what they have beyond what they have when
    idle is all that lacks, the one that has most of that. Empty: none is to go.
    """
    used = {name: used_mib(file, cgroups) for name, (file, _, _) in before.items()}
    beyond = {name: used[name] - usual for name, (_, usual, _) in before.items() if used[name] > usual}
    grown = {name: used[name] - idle for name, (_, _, idle) in before.items() if used[name] > idle}
    found = beyond or (grown if sum(grown.values()) >= lack_mib else {})
    return max(found, key=found.__getitem__, default="")


def used_mib(container_id: Path, cgroups: Path) -> int:
    """MiB of a container's that no file has, and that only its end gives back; 0: it is not there."""
    group = _group(container_id, cgroups)
    try:
        said = (group / "memory.stat").read_text() if group else ""
    except OSError:
        said = ""
    found = re.search(r"^anon (\d+)$", said, re.MULTILINE)
    return int(found.group(1)) >> 20 if found else 0


def kill(container_id: Path, cgroups: Path) -> bool:
    """SIGKILL to all of an engine's container at once; whether there was one.

    Docker is asked last: it may hang when memory is short.
    """
    identity, group = _identity(container_id), _group(container_id, cgroups)
    if group is None:
        return bool(identity) and _docker_kills(identity)
    try:
        (group / "cgroup.kill").write_text("1")
    except OSError:
        # Before Linux 5.14.
        _kill_one_by_one(group)
    return True


def _identity(container_id: Path) -> str:
    try:
        return container_id.read_text().strip()
    except OSError:
        return ""


def _group(container_id: Path, cgroups: Path) -> Path | None:
    """As Docker names it with systemd's cgroup driver, and with its own; first where the firewall knows it."""
    identity = _identity(container_id)
    parents = ("tandem.slice/docker-{}.scope", "tandem.slice/{}", "system.slice/docker-{}.scope", "docker/{}")
    places = (cgroups / parent.format(identity) for parent in parents)
    return next((place for place in places if identity and place.is_dir()), None)


def _kill_one_by_one(group: Path) -> None:
    try:
        pids = (group / "cgroup.procs").read_text().split()
    except OSError:
        # It has ended meanwhile.
        return
    for pid in pids:
        try:
            os.kill(int(pid), signal.SIGKILL)
        except ProcessLookupError:
            pass


def _docker_kills(identity: str) -> bool:
    """Whether Docker has killed it, in the time that the guard can look away."""
    try:
        return subprocess.run(["docker", "kill", identity], capture_output=True, timeout=DOCKER_S).returncode == 0
    except (OSError, subprocess.TimeoutExpired) as error:
        say(f"Docker does not kill the container {identity}: {error}")
        return False


def say(text: str) -> None:
    """One line for the journal."""
    print(f"tandem: {text}", file=sys.stderr, flush=True)


if __name__ == "__main__":
    sys.exit(main())
