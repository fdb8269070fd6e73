"""What `tandem status` prints: a table as wide as its terminal, and under it what does not serve."""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator, Sequence

from rich.console import Console
from rich.table import Table
from rich.text import Text

from operations.wire.unit import Status, StatusRow

COLUMNS = ("node", "unit", "state", "since", "recipe", "image", "model", "health")
#: A terminal that is too narrow for all of them has these; what a unit runs is then said below.
NARROW = ("node", "unit", "state", "since", "health")
#: Columns of a pipe, which has no width: each row is one line, so that it can be searched.
PIPE = 2000
_NOTHING: StatusRow = {"unit": "-", "state": "nothing of Tandem's runs here"}
#: A time as systemd says it, and what of it tells one day and hour from another.
_SINCE = re.compile(r"\w{3} (\d{4}-\d\d-\d\d \d\d:\d\d):\d\d .*")


def status_table(answers: dict[str, Status], absent: Sequence[str] = ()) -> None:
    """One row for each unit of each node; under it a line for each node that is away, and why something does not
    serve.
    """
    console = Console(width=None if sys.stdout.isatty() else PIPE, markup=False, highlight=False, emoji=False)
    rows = [(name, row) for name, answer in answers.items() for row in answer["rows"] or [_NOTHING]]
    whole = _table(rows, COLUMNS)
    needed = console.measure(whole, options=console.options.update(max_width=PIPE)).maximum
    below = [f"\n{line}" for line in absent]
    for name, row in rows:
        below += [f"\n{name} {row['unit']}: {said}" for said in (row.get("start"), row.get("why")) if said]
    for name, answer in answers.items():
        if old := answer["old_images"]:
            named = ", ".join(f"{image['name']} ({image['mb']:,} MB)" for image in old)
            below.append(f"\n{name}: neither the plan nor a unit needs {named}; `tandem prune` removes such images")
    if needed <= console.width:
        console.print(whole)
    else:
        console.print(_table([(name, _shorter(row)) for name, row in rows], NARROW))
        below[:0] = ["", *_runs(rows)]
    for line in below:
        console.print(line, soft_wrap=not console.is_terminal)


def _table(rows: Sequence[tuple[str, StatusRow]], columns: Sequence[str]) -> Table:
    table = Table(box=None, pad_edge=False)
    for column in columns:
        # A name that is cut can't be copied.
        table.add_column(column, no_wrap=column in ("node", "unit"))
    for name, row in rows:
        cells = (str(row.get(column, "")) for column in columns[1:])
        table.add_row(name, *(Text(cell, _style(cell)) for cell in cells))
    return table


def _style(cell: str) -> str:
    """Colour is beside the word, never in its place."""
    is_bad = cell.startswith(("no:", "no ", "failed", "is not here"))
    return "red" if is_bad else "green" if cell.startswith("answers") else ""


def _shorter(row: StatusRow) -> StatusRow:
    return row | {"state": row["state"].removesuffix(" (running)"), "since": _SINCE.sub(r"\1", row.get("since", ""))}


def _runs(rows: Sequence[tuple[str, StatusRow]]) -> Iterator[str]:
    """What units run, once for all of them that run the same."""
    names = list(dict.fromkeys(name for name, _ in rows))
    found: dict[str, dict[str, list[str]]] = {}
    for name, row in rows:
        parts = [row.get("recipe", ""), row.get("model", ""), row.get("image", "")]
        if said := ", ".join(filter(None, parts)):
            found.setdefault(said, {}).setdefault(row["unit"], []).append(name)
    for said, units in found.items():
        on = dict.fromkeys(node for nodes in units.values() for node in nodes)
        where = "" if len(on) == len(names) else f" on {', '.join(on)}"
        yield f"{', '.join(units)}{where}: {said}"
