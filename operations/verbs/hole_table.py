"""The words of `tandem audit-security`, on standard output."""

from __future__ import annotations

import sys
from collections.abc import Sequence

from rich.console import Console
from rich.table import Table

from operations.plan.advisories import Hole, Verdict, stale_lines
from operations.plan.advisories.advisory import about

COLUMNS = ("part", "version", "where", "advisory", "CVSS", "fixed in", "reachable", "what it means", "remedy")
#: Columns of a pipe, which has no width: each row is one line, so that it can be searched.
PIPE = 2000


def show(verdict: Verdict) -> None:
    """One table, what can be reached first and the worst of it on top; under it what could not be judged."""
    table = Table(*COLUMNS, box=None, pad_edge=False)
    for hole in verdict.holes:
        advisory, part = hole.advisory, hole.part
        table.add_row(
            *(part.title, part.version, part.where, advisory.id, hole.rating, hole.fixed, _reachable(hole)),
            *(advisory.summary, hole.remedy if hole.reachable else ""),
        )
    if verdict.holes:
        console().print(table)
    print("\n".join([f"\n{counted(verdict)}", *rest(verdict)]))


def console() -> Console:
    """A pipe has no width: nothing is cut there."""
    return Console(width=None if sys.stdout.isatty() else PIPE, markup=False, highlight=False)


def counted(verdict: Verdict) -> str:
    """How many, of which sort."""
    reachable = sum(hole.reachable for hole in verdict.holes)
    accepted = sum(hole.reachable and hole.accepted for hole in verdict.holes)
    words = f"{len(verdict.holes)} known hole(s), {reachable} of them can be reached, {len(verdict.critical)} critical"
    return f"{words}, {accepted} accepted" if accepted else words


def rest(verdict: Verdict) -> list[str]:
    """What could not be judged, and by what list this was."""
    lines = [
        f"{part.title} ({part.where}): nobody says its version; `tandem sbom` asks the image once it is on the head"
        for part in verdict.unknown
    ]
    said = about()
    lines += stale_lines(verdict.stale)
    lines.append(f"by the list of {said['date']}, which knows: {', '.join(said['packages'])}. {said['how']}")
    return lines


def failure(critical: Sequence[Hole]) -> str:
    """Why the verb ends with 1."""
    names = ", ".join(dict.fromkeys(hole.advisory.id for hole in critical))
    return f"critical holes can be reached and nobody has accepted them: {names}"


def _reachable(hole: Hole) -> str:
    if not hole.reachable:
        return f"no: {hole.why}"
    return f"accepted: {hole.why}" if hole.accepted else f"yes: {hole.why}"
