"""How a unit is, and the end of its log: enough to see whether it starts, without a question to what it runs."""

from __future__ import annotations

from operations.node.commands import output
from operations.node.unit import cause
from operations.node.unit.services import unit_states
from operations.shapes.unit import UnitLook

#: Lines that are looked through for the one that says why: a few starts of an engine.
STARTS = 1500


def main(unit: str, lines: int = 1, why: bool = False) -> UnitLook:
    """`state`: systemd's properties; `log`: so many lines, the last ones; with `why` those around the one in which the
    program itself says why it ended, which is `told`.
    """
    argv = ("journalctl", "--unit", unit, "--no-pager", "--output=cat")
    state = unit_states([unit])[unit]
    if not why:
        return {"state": state, "log": output(*argv, f"--lines={lines}").splitlines()}
    told, log = cause.excerpt(output(*argv, f"--lines={STARTS}").splitlines(), lines)
    return {"state": state, "log": log, "told": told}
