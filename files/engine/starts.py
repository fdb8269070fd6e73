"""Sees a start of this node's engine, and keeps what its phases have taken (phases.py beside this).

`starts.py beside`: runs beside the container (run.sh) until the engine answers, and records the start.
`starts.py ended`: when the unit has ended (ExecStopPost): records a start that never came to serve.
`starts.py failed`: prints why a loader that was chosen is not taken again, or nothing (run.sh asks before a start).

It reads the journal of this one start. starts.json says what to look for.
"""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import time
from collections import deque
from collections.abc import Collection
from pathlib import Path
from typing import TYPE_CHECKING

import phases
from memory import answers

if TYPE_CHECKING:
    from operations.wire.starts import Began, Phases, Start, StartSpec

RUN = Path("/run/tandem")
VMSTAT = Path("/proc/vmstat")
#: Between two looks, and how many are kept: a load takes less.
LOOK_S, KEPT_LOOKS = 1.0, 7200
#: How loader.py begins its line, which quotes the error of a start before, and calls the engine's own way.
LOADS_BY, OWN = "tandem: the weights are loaded by", "engine"
#: A load that takes so many times the longest one of the same plan, and so many seconds at least, hangs.
HANGS, HANGS_S = 3, 600.0
#: A line in which something says that it has failed; what a logger itself calls less; and what tells nothing.
_FAULT = re.compile(r"\b(?:[A-Z]\w*)?(?:Error|Exception)\b|Segfault|SIGSEGV|SIGBUS")
_MILD, _ELSEWHERE = re.compile(r"\b(?:DEBUG|INFO|WARNING)\b"), re.compile(r"See root cause above|\braise \w+\($")
#: A file that can't be read; and memory that is not there, which is the loader's only where its own code asks for it.
_READ = re.compile(r"\b(?:OSError|IOError|EOFError|SafetensorError)\b|SIGBUS|Bus error|Input/output error")
_NO_MEMORY = re.compile(r"OutOfMemory|[Oo]ut of memory|Cannot allocate memory|\bMemoryError\b")


def main(argv: list[str]) -> int:
    """See the module's words."""
    wanted: StartSpec = json.loads(Path(__file__).with_name("starts.json").read_text())
    if argv == ["beside"]:
        beside(wanted)
    elif argv == ["ended"]:
        ended(wanted)
    elif argv == ["failed"]:
        print(failed(wanted), end="")
    else:
        print(f"{argv}: expected beside, ended or failed", file=sys.stderr)
        return 2
    return 0


def beside(wanted: StartSpec) -> None:
    """Mark that the start goes on, wait until the engine answers, record it."""
    begun: Began = {
        "unit": wanted["unit"],
        "spec": wanted["spec"],
        "recipe": wanted["recipe"],
        "invocation": os.environ.get("INVOCATION_ID", ""),
        "when": time.time(),
        "since": time.monotonic(),
    }
    mark = _mark(wanted)
    # This program may itself have been started anew in the midst of a start.
    begun = _begun(mark, begun["invocation"]) or begun
    mark.parent.mkdir(parents=True, exist_ok=True)
    mark.write_text(json.dumps(begun))
    # A rank may wait for days: what it has read then is no part of a load.
    counted = deque([(time.monotonic(), paged_in_mib())], KEPT_LOOKS)
    # Of a cluster the head may still answer for the start before, until the ranks have met anew.
    while not (answers(wanted["url"]) and has_met(wanted, begun)):
        time.sleep(LOOK_S)
        counted.append((time.monotonic(), paged_in_mib()))
    try:
        record(wanted, begun, counted)
    except Exception as error:
        # A full disk is no reason to look again each second, nor is anything else: run.sh would start this again.
        print(f"tandem: this start is not kept: {error!r}", file=sys.stderr, flush=True)
    mark.unlink(missing_ok=True)


def ended(wanted: StartSpec) -> None:
    """A start that still goes on when its unit has ended did not come to serve."""
    mark = _mark(wanted)
    try:
        if begun := _begun(mark):
            record(wanted, begun, [], is_over=True, was_asked=is_asked(wanted["unit"]))
    finally:
        mark.unlink(missing_ok=True)


def failed(wanted: StartSpec) -> str:
    """Why this plan takes its engine's own way to load: what was held against a loader in a start of the same plan. It
    is held no more where the engine's own way has ended in its load since, or a loader has served.
    """
    for start in reversed(_of_plan(wanted["unit"], wanted["spec"])):
        by_loader = start["loader"] not in ("", OWN)
        if (start["ended"] == "weights" and start["loader"] == OWN) or (by_loader and not start["ended"]):
            return ""
        if start["blamed"]:
            when = time.strftime("%Y-%m-%d %H:%M", time.localtime(start["when"]))
            return f"{start['blamed']} failed on {when}: {start['why']}"
    return ""


def record(
    wanted: StartSpec,
    begun: Began,
    counted: Collection[tuple[float, int]],
    *,
    is_over: bool = False,
    was_asked: bool = False,
) -> None:
    """Keep a start, as its log has it. `is_over`: it has ended, and never served. `was_asked`: somebody has stopped it.
    Then it is none that failed, and is left out, unless its loader hung.
    """
    until, lines = time.monotonic(), phases.journal(begun["invocation"])
    seen, why = phases.read(lines, wanted["marks"], begun["since"], until), _why(lines)
    hung = hangs(begun, seen) if is_over else ""
    if was_asked and not hung:
        return
    by = (blamed(seen, lines, wanted["faults"]) or again(begun, seen, why)) if is_over else ""
    if hung and not by:
        by, why = hung, f"not loaded after {seen['phases']['weights'] / 60:.0f} minutes; its last word: {why}"
    phases.keep(
        {
            "unit": begun["unit"],
            "spec": begun["spec"],
            "recipe": begun["recipe"],
            "when": begun["when"],
            "phases": {name: round(seconds, 2) for name, seconds in seen["phases"].items()},
            "gib": seen["gib"],
            "read_gib": round(read_mib(seen, counted) / 1024, 2),
            "loader": seen["loader"],
            "ended": seen["now"] if is_over else "",
            "why": why if is_over else "",
            "blamed": by,
        }
    )


def has_met(wanted: StartSpec, begun: Began) -> bool:
    """Whether this start has come to its engine's own program."""
    seen = phases.read(phases.journal(begun["invocation"]), wanted["marks"], begun["since"], time.monotonic())
    return seen["now"] not in ("container", phases.WAITS)


def blamed(seen: Phases, lines: list[tuple[float, str]], faults: dict[str, str]) -> str:
    """The chosen loader, where an error names it, or a file could not be read in the load; else nothing.

    What ends there otherwise is not the loader's: a GPU that another program fills ends a load as well.
    """
    loader = seen["loader"]
    if loader in ("", OWN):
        return ""
    words = re.compile(faults.get(loader) or re.escape(loader))
    said = _of_engine(lines)
    behind = [line for when, line in said if when >= seen["since"] and not _MILD.search(line)]
    failing = [line for line in behind if _FAULT.search(line)]
    # Its name stands in the arguments that the engine repeats: only an error's own line, or a frame of it, counts.
    named = any(words.search(line) for line in (*failing, *(line for line in behind if 'File "' in line)))
    unread = any(_READ.search(line) and not _NO_MEMORY.search(line) for line in failing)
    return loader if named or (unread and seen["now"] == "weights") else ""


def again(begun: Began, seen: Phases, why: str) -> str:
    """The chosen loader, where a second start of the plan in a row ends in its load, whatever is said of it; else
    nothing. A kernel that kills for memory leaves no word. An error that names missing memory is no such end.
    """
    before = _of_plan(begun["unit"], begun["spec"])[-1:]
    ends = [(each["ended"], each["loader"], each["why"]) for each in before] + [(seen["now"], seen["loader"], why)]
    told = {(loader if ended == "weights" and not _NO_MEMORY.search(said) else "") for ended, loader, said in ends}
    return told.pop() if len(ends) == 2 and len(told) == 1 and OWN not in told else ""


def hangs(begun: Began, seen: Phases) -> str:
    """The chosen loader, where the load goes on for longer than any load of this plan by far; else nothing."""
    served = phases.served(phases.kept(), begun["unit"], begun["spec"])
    most = max([HANGS_S, *(HANGS * each["phases"].get("weights", 0.0) for each in served)])
    is_late = seen["now"] == "weights" and seen["phases"].get("weights", 0.0) > most
    return seen["loader"] if is_late and seen["loader"] != OWN else ""


def _of_plan(unit: str, spec: str) -> list[Start]:
    """Its starts that are kept, the oldest first. A drop-in may start another plan's engine than `starts.json` says."""
    return [each for each in phases.kept() if (each["unit"], each["spec"]) == (unit, spec)]


def read_mib(seen: Phases, counted: Collection[tuple[float, int]]) -> float:
    """MiB that the node has read from disks while weights were loaded; whoever else reads there counts too."""

    def at(when: float) -> int:
        return min(counted, key=lambda each: abs(each[0] - when))[1]

    spans = [(first, last) for name, first, last in seen["spans"] if name == "weights"] if counted else []
    return sum(at(last) - at(first) for first, last in spans)


def paged_in_mib() -> int:
    """MiB that this kernel has read from block devices since it began (Documentation/filesystems/proc.rst)."""
    found = re.search(r"^pgpgin (\d+)$", VMSTAT.read_text(), re.MULTILINE)
    return int(found[1]) // 1024 if found else 0


def is_asked(unit: str) -> bool:
    """Whether somebody has asked systemd to stop or restart the unit: then a job of it is under way."""
    argv = ["systemctl", "show", f"{unit}.service", "--property=Job", "--value"]
    said = subprocess.run(argv, capture_output=True, text=True, check=False).stdout.strip()
    return said not in ("", "0")


def _why(lines: list[tuple[float, str]]) -> str:
    said = [line for _, line in _of_engine(lines) if line.strip()]
    telling = [line for line in said if _FAULT.search(line) and not (_MILD.search(line) or _ELSEWHERE.search(line))]
    last = (telling or said or ["no word in its log"])[-1]
    return last.strip()[:300]


def _of_engine(lines: list[tuple[float, str]]) -> list[tuple[float, str]]:
    """Without what loader.py has said: it repeats the error of a start before."""
    return [each for each in lines if not each[1].startswith(LOADS_BY)]


def _mark(wanted: StartSpec) -> Path:
    return RUN / f"{wanted['unit'].removeprefix('tandem-')}.start.json"


def _begun(mark: Path, invocation: str = "") -> Began | None:
    """The start that goes on; None: none, or another one than the given."""
    try:
        found: Began = json.loads(mark.read_text())
        return found if not invocation or found["invocation"] == invocation else None
    except (OSError, ValueError, KeyError, TypeError):
        return None


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
