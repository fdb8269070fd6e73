"""The doctor's words, on standard output."""

from __future__ import annotations

import sys
from collections.abc import Sequence

from rich.console import Console
from rich.table import Table

from operations.plan.config.refusal import coded
from operations.plan.doctor.symptom import BAD, UNASKED, Symptom

COLUMNS = ("", "node", "what was seen", "what it means", "what helps")
#: Columns of a pipe, which has no width: each row is one line, so that it can be searched.
PIPE = 2000
#: Columns below which three texts beside each other would be a few words wide: they stand below each other.
BESIDE = 120


def announce(nodes: int, *, network: bool) -> None:
    """What is about to be done, before it is done."""
    fabric = "sends up to 1.5 s each way over each rail" if network else "sends no load over the rails (--no-load)"
    print(
        f"{nodes} node(s), about half a minute, nothing is changed. The doctor {fabric},\n"
        "reads at most 1 GiB of a model, and lets an unused GPU compute for 3 s, or asks the engine for tokens:\n"
        "an engine that serves is slower meanwhile, and the figures are better without one.\n",
        flush=True,
    )


def show(symptoms: Sequence[Symptom], figures: Sequence[str], nodes: int) -> None:
    """One table, the worst first; under it what was measured, and what could not be asked."""
    rows = [each for each in symptoms if each.severity != UNASKED]
    if rows:
        console = Console(width=None if sys.stdout.isatty() else PIPE, markup=False, highlight=False)
        console.print(seen(rows, nodes, console.width))
    bad = sum(each.severity == BAD for each in symptoms)
    print(f"\n{bad} bad, {len(rows) - bad} remark(s)")
    for title, lines in (
        ("measured and found", figures),
        ("not asked", [f"{_where(each, nodes)}: {each.seen}" for each in symptoms if each.severity == UNASKED]),
    ):
        if lines:
            print(f"\n{title}:")
            print("\n".join(f"  {line}" for line in lines))


def seen(rows: Sequence[Symptom], nodes: int, width: int) -> Table:
    """A row for each, for a terminal of so many columns."""
    if width >= BESIDE:
        table = Table(*COLUMNS, box=None, pad_edge=False)
        for each in rows:
            table.add_row(each.severity, _where(each, nodes), coded(each.seen, each.code), each.means, each.remedy)
        return table
    table = Table.grid(padding=(0, 2, 1, 0))
    for each in rows:
        texts = (coded(each.seen, each.code), each.means, f"what helps: {each.remedy}" if each.remedy else "")
        table.add_row(each.severity, _where(each, nodes), "\n".join(filter(None, texts)))
    return table


def _where(symptom: Symptom, nodes: int) -> str:
    return "all" if len(symptom.where) == nodes > 1 else ", ".join(symptom.where)
