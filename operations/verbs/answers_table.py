"""How `tandem prove` shows what was found."""

from __future__ import annotations

import sys

from rich.console import Console
from rich.table import Table
from rich.text import Text

from operations.plan.answers import gate
from operations.wire.answers import Proven


def answers_table(proven: Proven, before: Proven | None) -> None:
    """A row for each check, with what it was in what served before, and under it what they come to."""
    was = {each["name"]: each["verdict"] for each in before["rows"]} if before else {}
    table = Table("check", "kind", "verdict", *(("before",) if before else ()), "why", box=None, pad_edge=False)
    for row in proven["rows"]:
        held = (was.get(row["name"], ""),) if before else ()
        # An answer may have brackets in it, which are no colours.
        table.add_row(row["name"], row["kind"], row["verdict"], *held, Text(row["why"]))
    Console(width=None if sys.stdout.isatty() else 200).print(table)
    print(f"\n{proven['model']} ({proven['recipe']}), {proven['seconds']:.0f} s: {gate.summary(proven['rows'])}")
    if before and (fall := gate.fall(before["rows"], proven["rows"])).is_below:
        print(f"below {before['recipe']} of {before['when']}, in: {fall}; `tandem rollback` goes back")
