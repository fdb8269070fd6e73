"""How a unit is, and the end of its log: enough to see whether it starts, without a question to what it runs."""

from __future__ import annotations

import json
from pathlib import Path

from operations.node.commands import output, read
from operations.node.unit import cause
from operations.node.unit.services import unit_states
from operations.paths import run_folder
from operations.wire.unit import UnitLook

#: Lines that are looked through for the one that says why: a few starts of an engine.
STARTS = 1500


def main(unit: str, lines: int = 1, why: bool = False, since_s: float = 0) -> UnitLook:
    """`state`: systemd's properties; `log`: so many lines, the last ones; with `why` those around the one in which the
    program itself says why it ended, which is `told`. `since_s`: of so many seconds alone, because what ended before
    had other reasons.
    """
    argv = ("journalctl", "--unit", unit, "--no-pager", "--output=cat")
    state = unit_states([unit])[unit]
    if asks := _asks(unit):
        state["asks"] = asks
    if not why:
        return {"state": state, "log": output(*argv, f"--lines={lines}").splitlines()}
    since = (f"--since=-{since_s:.0f}s",) if since_s else ()
    told, log = cause.excerpt(output(*argv, *since, f"--lines={STARTS}").splitlines(), lines)
    return {"state": state, "log": log, "told": told}


def _asks(unit: str) -> str:
    """With what its rank asks for its turn to load; empty: it does not (files/engine/meet.py)."""
    try:
        return str(json.loads(read(Path(run_folder(unit)) / "meeting.json")).get("asks", ""))
    except (ValueError, AttributeError):
        return ""
