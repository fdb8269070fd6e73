"""The table of checks in docs/prove.md."""

from __future__ import annotations

from manual import ROOT
from operations.plan.answers import gate

#: Where the table stands.
BEGINS, ENDS = "<!-- what `make manual-pages` writes -->\n", "<!-- its end -->"


def page() -> str:
    """docs/prove.md as a whole, with the table of today."""
    text = (ROOT / "docs/prove.md").read_text()
    before, after = text.partition(BEGINS)[0], text.partition(ENDS)[2]
    return f"{before}{BEGINS}{gate.page()}{ENDS}{after}"
