"""`tandem explain CODE`: what a finding means, and what helps."""

from __future__ import annotations

from operations.plan.config.refusal import Finding, Refusal, nearest
from operations.plan.doctor.findings import KINDS


def lines(code: str) -> list[str]:
    """A kind's texts, a line each. Raises Refusal where no kind has the code."""
    if code not in KINDS:
        every = f"a code stands in brackets behind a finding; all of them: {', '.join(sorted(KINDS))}"
        raise Refusal(Finding("explain", f"no finding has the code `{code}`", nearest(code, KINDS, every)))
    seen, means, remedy = KINDS[code].explained()
    rows = (("seen", seen), ("means", means), ("remedy", remedy))
    return [code, *(f"  {name + ':':8}{text}" for name, text in rows if text)]
