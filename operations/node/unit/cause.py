"""Why a unit does not serve, in one sentence, from what it has logged."""

from __future__ import annotations

import re
from collections.abc import Sequence

from operations.node.commands import output
from operations.wire.unit import UnitState

#: A line that says why, the most telling kind first; of several the last one counts.
KINDS = (
    # What Tandem's own programs say before a start, and of a kill.
    r"waiting \(\d+ s so far\): |the engine\S*'s container is killed|restart \d+ in a row",
    # Python's last word on an exception.
    r"^(?:\([^)]*\) |ERROR [^\]]*\] |\w+\.)*[A-Z]\w*(?:Error|Exception|Exit)\b.*: ",
    r"(?i)\berror\b|\bfailed\b|\bno such\b|unable to|cannot|can't",
)

#: Signs of a line that is shown.
WIDTH = 200
#: `docker rm --force` before a start, with nothing there.
_CLEARING = re.compile(r"^Error(?: response from daemon)?: No such container: ")
#: What a logger itself calls less than an error; PyTorch's C++ says it as `[W1123 01:57:01...`.
_MILD = re.compile(r"\b(?:DEBUG|INFO|WARNING)\b|\[[IW]\d{4} ")
#: A rank's last word while it waits for the others (files/engine/meet.py), and the one that ends the wait.
_MEETING = re.compile(r"^tandem: (?:waiting for \d+ more rank|rank 0 (?:at|is there)|rank \d+ |.* in a ring )")
_MET = "tandem: all ranks are here"


def main(unit: str, state: UnitState, log: Sequence[str] | None = None) -> str:
    """`state`: systemd's properties of the unit; `log`: its lines, read when not given as `log_of` reads them."""
    lines = log_of(unit, state) if log is None else log
    if state.get("ActiveState") == "active":
        return _of_this_start(lines)
    has_failed = state.get("ActiveState") == "failed"
    # What stays down waits for nothing: there an engine's own words count before Tandem's.
    kinds = (*KINDS[1:], KINDS[0]) if has_failed else KINDS
    # A kill is no failure to systemd (SuccessExitStatus), and no reason either.
    result = state.get("Result", "success")
    why = telling(lines, kinds) or ("no word in its log" if result in ("", "success") else result)
    if has_failed:
        # systemd counts the start that it has refused as well.
        return f"it stays down after {state.get('NRestarts') or 1} starts: {why}. Mend it, then `tandem apply`"
    return why


def telling(lines: Sequence[str], kinds: Sequence[str]) -> str:
    """The line that says why; empty: none does."""
    serious = [line for line in lines if not _MILD.search(line)]
    for kind in kinds:
        if found := [line for line in serious if re.search(kind, line)]:
            return re.sub(r"^tandem: ", "", found[-1].strip())[:300]
    return ""


def excerpt(lines: Sequence[str], count: int) -> tuple[str, list[str]]:
    """The line in which an engine itself says why it ended, and `count` lines around it: what restarts have logged
    behind it is no end of the story. Without one: nothing, and the last lines.
    """
    own = telling(lines, KINDS[1:2])
    where = next((number for number in reversed(range(len(lines))) if own and own in lines[number]), len(lines) - 1)
    # What an exception says in further lines comes behind it.
    first = max(0, min(where - count // 2, len(lines) - count))
    return own, list(lines[first : first + count])


def _of_this_start(lines: Sequence[str]) -> str:
    """Why one that runs does not answer: it waits for other ranks, or has an error, or loads."""
    met = max((number for number, line in enumerate(lines, 1) if line.startswith(_MET)), default=0)
    own = [line for line in lines if line.startswith("tandem: ")]
    if own and _MEETING.search(own[-1]):
        return own[-1].removeprefix("tandem: ")
    return telling(lines[met:], KINDS) or "no error in the log of this start: it may still be loading"


def shown(log: Sequence[str], count: int) -> list[str]:
    """The last lines for people: each at the length of two lines of a terminal at most, and none of what is said by
    the clearing before a start, which finds nothing to clear most of the time.
    """
    lines = [line for line in log if not _CLEARING.search(line)]
    return [line if len(line) <= WIDTH else f"{line[:WIDTH]}..." for line in lines[-count:]]


def log_of(unit: str, state: UnitState, lines: int = 300) -> list[str]:
    """The last lines of a unit's log, less what systemd says of it: of one that runs, those of this start alone."""
    this_start = f"_SYSTEMD_INVOCATION_ID={state.get('InvocationID', '')}"
    which = (this_start,) if state.get("ActiveState") == "active" else ("--unit", unit)
    argv = ("journalctl", *which, "--no-pager", "--output=cat", f"--lines={lines}")
    return [line for line in output(*argv).splitlines() if line.strip() and not _SYSTEMD.search(line)]


#: systemd's own lines, which say that but not why.
_SYSTEMD = re.compile(r"^(?:tandem-\w+\.service: |(?:Started|Starting|Stopped|Stopping|Failed to start) )")
