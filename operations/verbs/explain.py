"""`tandem explain NAME`: what a finding or an alarm means, and what helps."""

from __future__ import annotations

from operations.plan.config.refusal import Finding, Refusal, nearest
from operations.plan.doctor.findings import KINDS
from operations.plan.services.rules import alarms


def lines(name: str) -> list[str]:
    """The texts of a kind of findings by its code, or of an alarm by its name, a line each.

    Raises Refusal where nothing is called so.
    """
    known = {code: kind.explained() for code, kind in KINDS.items()} | alarms()
    if name not in known:
        every = f"a code stands in brackets behind a finding, an alarm has its name; all: {', '.join(sorted(known))}"
        raise Refusal(Finding("explain", f"no finding and no alarm is called `{name}`", nearest(name, known, every)))
    seen, means, remedy = known[name]
    rows = (("seen", seen), ("means", means), ("remedy", remedy))
    return [name, *(f"  {row + ':':8}{text}" for row, text in rows if text)]
