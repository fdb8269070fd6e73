"""Whether an engine may have the GPU: the driver answers, and nobody else computes on it.

The survey asks it, and each start of an engine: there it lies beside `ready.sh`, so it imports nothing of Tandem's.
"""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path, PurePosixPath
from typing import NamedTuple

#: Seconds for nvidia-smi: it needs a tenth of one, some where no program keeps the driver initialised.
PATIENCE_S = 15.0
QUERY = "--query-compute-apps=pid,process_name,used_memory"
#: Programs of a desktop, which DGX OS has: GNOME's remote desktop computes (340 MiB), the others draw.
DESKTOP = (
    *("Xorg", "Xwayland", "gnome-shell", "gnome-remote-desktop-daemon", "gnome-control-center", "mutter-x11-frames"),
    *("gdm-x-session", "gdm-wayland-session", "kwin_x11", "kwin_wayland", "plasmashell", "sunshine"),
)
#: Ollama gives its memory back before each start (files/engine/ollama.py).
GIVES_BACK = "ollama"
#: MiB that any program may have: a browser or a desktop's tool. A model has more.
SMALL_MIB = 1024
#: The process that hangs: no kill ends one that waits for its driver, so a second one is not begun.
HANGS = Path("/run/tandem/nvidia-smi.pid")
PROC = Path("/proc")


class Fault(NamedTuple):
    """One thing that is in the way, and what helps."""

    problem: str
    remedy: str
    #: Whether it is another program: in the way of a start, and of nothing that serves.
    stranger: bool = False


def main(own: Sequence[str]) -> list[Fault]:
    """Each thing in the way; none: the GPU is free, or nvidia-smi is not here.

    `own`: words in the control group of a process that make it Tandem's.
    """
    try:
        status, said = _asked()
    except FileNotFoundError:
        return []
    why = "reboot it; `sudo dmesg | grep NVRM` says why"
    if status is None:
        return [Fault(f"nvidia-smi says nothing in {PATIENCE_S:g} s: the GPU's driver hangs", why)]
    if status:
        first = (said.strip().splitlines() or ["without a word"])[0].strip()
        if "version mismatch" in said:
            problem = f"nvidia-smi ends with {status} ({first}): the driver was updated, its old module is still loaded"
            return [Fault(problem, "reboot it")]
        return [Fault(f"nvidia-smi ends with {status}: {first}", why)]
    return [_taken(*each) for each in processes(said) if _is_in_the_way(*each, own)]


def processes(said: str) -> Iterator[tuple[str, str, float | None]]:
    """(pid, program, MiB) of each line that nvidia-smi says to QUERY; MiB is None where it is not told: `[N/A]`."""
    for line in said.splitlines():
        pid, _, rest = line.partition(",")
        name, _, mib = rest.rpartition(",")
        if pid.strip().isdigit():
            try:
                yield pid.strip(), name.strip(), float(mib.strip().split(" ")[0])
            except ValueError:
                yield pid.strip(), name.strip(), None


def _asked() -> tuple[int | None, str]:
    """Exit status and words; None: it hangs, or one that was asked before does. Raises FileNotFoundError."""
    if _hangs():
        return None, ""
    argv = ["nvidia-smi", QUERY, "--format=csv,noheader,nounits"]
    process = subprocess.Popen(argv, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
    try:
        said, _ = process.communicate(timeout=PATIENCE_S)
    except subprocess.TimeoutExpired:
        process.kill()
        HANGS.parent.mkdir(parents=True, exist_ok=True)
        HANGS.write_text(str(process.pid))
        return None, ""
    return process.returncode, said.decode(errors="replace")


def _hangs() -> bool:
    """Whether the one that was asked before lives still."""
    try:
        return (PROC / HANGS.read_text() / "comm").read_text().strip() == "nvidia-smi"
    except OSError:
        return False


def _is_in_the_way(pid: str, program: str, mib: float | None, own: Sequence[str]) -> bool:
    name = _name(program)
    if name in DESKTOP or GIVES_BACK in program or (mib is not None and mib < SMALL_MIB):
        return False
    try:
        group = (PROC / pid / "cgroup").read_text()
    except OSError:
        # It has ended, or is in another namespace.
        group = ""
    return not any(word in group for word in own)


def _taken(pid: str, program: str, mib: float | None) -> Fault:
    memory = "with an unknown part of the memory" if mib is None else f"with {mib / 1024:.1f} GiB"
    problem = f"another program computes on the GPU: {program[:80]} (pid {pid}) {memory}"
    return Fault(problem, f"end it: sudo kill {pid}", stranger=True)


def _name(program: str) -> str:
    """`/usr/bin/gnome-shell` and `/usr/bin/gnome-shell --x11` are one; `[Not Found]` is in another namespace."""
    return program if program.startswith("[") else PurePosixPath(program.split(" ")[0]).name


if __name__ == "__main__":
    for fault in main(sys.argv[1:])[:1]:
        print(f"{fault.problem}; {fault.remedy}")
