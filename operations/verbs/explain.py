"""`tandem explain CODE`: what a finding means, and what helps."""

from __future__ import annotations

from operations.plan.config.refusal import Finding, Refusal, nearest
from operations.plan.doctor.findings import KINDS

#: How a code is recognised, and where all are.
_LOOK = "codes look like `rail-no-carrier`, in brackets behind a finding; all: docs/messages.md in the clone"


def lines(code: str) -> list[str]:
    """A kind's texts, a line each. Raises Refusal where no kind has the code."""
    if code not in KINDS:
        raise Refusal(Finding("explain", f"no finding has the code `{code}`", nearest(code, KINDS, _LOOK)))
    seen, means, remedy = KINDS[code].explained()
    rows = (("seen", seen), ("means", means), ("remedy", remedy))
    return [code, *(f"  {name + ':':8}{text}" for name, text in rows if text)]
