"""`tandem explain NAME`: what a finding or an alarm means, and what helps."""

from __future__ import annotations

from operations.plan.config.refusal import Finding, Refusal, nearest
from operations.plan.doctor.findings import KINDS
from operations.plan.services.rules import alarms

#: How a code is recognised, and where all are.
_LOOK = "a code is like `rail-no-carrier`, in brackets behind a finding; all codes and alarms: docs/messages.md"


def lines(name: str) -> list[str]:
    """The texts of a kind of findings by its code, or of an alarm by its name, a line each.

    Raises Refusal where nothing is called so.
    """
    known = {code: kind.explained() for code, kind in KINDS.items()} | alarms()
    if name not in known:
        problem = f"no finding and no alarm is called `{name}`"
        raise Refusal(Finding("explain", problem, nearest(name, known, _LOOK)))
    seen, means, remedy = known[name]
    rows = (("seen", seen), ("means", means), ("remedy", remedy))
    return [name, *(f"  {row + ':':8}{text}" for row, text in rows if text)]
