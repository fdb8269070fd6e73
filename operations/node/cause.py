"""Why a unit does not serve, in one sentence, from what it has logged."""

from __future__ import annotations

import re
from collections.abc import Sequence

from operations.node.commands import output

#: A line that says why, the most telling kind first; of several the last one counts.
KINDS = (
    # What Tandem's own programs say before a start, and of a kill.
    r"waiting \(\d+ s so far\): |the engine's container is killed|restart \d+ in a row",
    # Python's last word on an exception.
    r"^(?:\([^)]*\) |ERROR [^\]]*\] |\w+\.)*[A-Z]\w*(?:Error|Exception|Exit)\b.*: ",
    r"(?i)\berror\b|\bfailed\b|\bno such\b|unable to|cannot|can't",
)


def main(unit: str, state: dict[str, str], log: Sequence[str] | None = None) -> str:
    """`state`: systemd's properties of the unit; `log`: its lines, read from the journal when not given."""
    lines = journal(unit) if log is None else log
    has_failed = state.get("ActiveState") == "failed"
    # What stays down waits for nothing: there an engine's own words count before Tandem's.
    kinds = (*KINDS[1:], KINDS[0]) if has_failed else KINDS
    why = telling(lines, kinds) or state.get("Result", "") or "no word in its log"
    if has_failed:
        # systemd counts the start that it has refused as well.
        return f"it stays down after {state.get('NRestarts') or 1} starts: {why}. Mend it, then `make apply`"
    return why


def telling(lines: Sequence[str], kinds: Sequence[str]) -> str:
    """The line that says why; empty: none does."""
    for kind in kinds:
        if found := [line for line in lines if re.search(kind, line)]:
            return re.sub(r"^tandem: ", "", found[-1].strip())[:300]
    return ""


def journal(unit: str, lines: int = 300) -> list[str]:
    """The last lines of a unit's log, less what systemd says of it."""
    argv = ("journalctl", "--unit", unit, "--no-pager", "--output=cat", f"--lines={lines}")
    return [line for line in output(*argv).splitlines() if line.strip() and not _SYSTEMD.search(line)]


#: systemd's own lines, which say that but not why.
_SYSTEMD = re.compile(r"^(?:tandem-\w+\.service: |(?:Started|Starting|Stopped|Stopping|Failed to start) )")
