"""`make advise LOAD="users=8 prompt=1024 answer=256 ttft=2s"`: docs/advise.md."""

from __future__ import annotations

import os
import sys

from rich.console import Console
from rich.table import Table

from bench.advise.asking import MEASURE, asked
from bench.advise.choose import choose
from bench.advise.tell import COLUMNS, row, sentences, title
from operations.plan.refusal import Finding, Refusal


def main() -> int:
    """0: told. 1: it can't be, in one line a fault."""
    try:
        question, load = asked(os.environ)
        outlooks = [question.outlook(setup, load) for setup in question.setups()]
        choice = choose(question, outlooks, load)
        if choice is None:
            why = "; ".join(f"{each.setup}: {each.why_not or 'nothing is known'}" for each in outlooks)
            raise Refusal(Finding("LOAD", f"nothing can be said of it: {why}", MEASURE))
    except Refusal as refusal:
        print(f"advise:{refusal}", file=sys.stderr)
        return 1
    console = Console(width=None if sys.stdout.isatty() else 200, highlight=False)
    console.print(title(question, load), markup=False, soft_wrap=True)
    table = Table(*COLUMNS, box=None, pad_edge=False)
    for outlook in outlooks:
        table.add_row(*row(question, outlook, load))
    console.print("", table, "", sep="\n")
    for line in sentences(question, outlooks, choice, load):
        console.print(line, markup=False, soft_wrap=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
