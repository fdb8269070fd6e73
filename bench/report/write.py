"""A report's three files."""

from __future__ import annotations

import csv
import io
import re
from collections.abc import Iterator, Sequence
from pathlib import Path
from statistics import fmean

import jinja2
from markupsafe import Markup, escape

from bench import published
from bench.report import verdict
from bench.report.changed import changes
from bench.report.page import Page, Part
from bench.report.series import Measured

_TEMPLATES = jinja2.Environment(
    loader=jinja2.FileSystemLoader(Path(__file__).parent),
    autoescape=True,
    undefined=jinja2.StrictUndefined,
    trim_blocks=True,
    lstrip_blocks=True,
)


def _as_code(text: str) -> Markup:
    """A text as HTML: words between backticks become `<code>`."""
    return Markup(re.sub(r"`([^`]+)`", r"<code>\1</code>", str(escape(text))))


_TEMPLATES.filters["code"] = _as_code
CSV_HEAD = (
    "source",
    "setup",
    "target",
    "prompt",
    "users",
    "figure",
    "unit",
    "mean",
    "low",
    "high",
    "repeats",
    "was",
    "noise",
)


def write(page: Page, measured: Measured, against: Measured | None, names: Sequence[str], folder: Path) -> list[Path]:
    """Into a folder, which is made; what an older report has left there is written over."""
    folder.mkdir(parents=True, exist_ok=True)
    texts = {
        "report.html": _TEMPLATES.get_template("report.html.j2").render(page=page),
        "report.md": markdown(page),
        "report.csv": table(measured, against, names),
    }
    for name, text in texts.items():
        (folder / name).write_text(text)
    return [folder / name for name in texts]


def table(measured: Measured, against: Measured | None, names: Sequence[str]) -> str:
    """Every figure a line, the articles' behind the owner's."""
    known = {}
    for change in changes(measured, against) if against else ():
        known[id(change.rows), change.setup, change.users] = change
    buffer = io.StringIO()
    writer = csv.writer(buffer, lineterminator="\n")
    writer.writerow(CSV_HEAD)
    for rows in measured.rows:
        for users in rows.users if rows.figure.name in names else ():
            for setup, values in rows.values[users].items():
                found = known.get((id(rows), setup, users))
                spread = [f"{each:.6g}" for each in (fmean(values), min(values), max(values))]
                change_cells = (f"{found.was:.6g}", f"{found.noise:.4f}") if found else ("", "")
                where = (measured.path.name, setup, rows.target, rows.prompt, users, rows.figure.name, rows.figure.unit)
                writer.writerow((*where, *spread, len(values), *change_cells))
    for cell in published.cells(recipe=measured.run.recipe):
        if cell.value is not None:
            unit = "ms" if cell.figure == "ttft" else "tok/s"
            name = f"{cell.source} {cell.article.title}"
            writer.writerow(
                (name, cell.column, "", "", cell.users, cell.figure, unit, f"{cell.value:g}", "", "", "", "", "")
            )
    return buffer.getvalue()


def markdown(page: Page) -> str:
    """The tables and words, without plots."""
    return "\n".join(_lines(page)).rstrip() + "\n"


def _lines(page: Page) -> Iterator[str]:
    yield from (f"# {page.title}", "")
    if page.verdict:
        yield from verdict.text(page.verdict)
    yield from ("", " ".join(page.besides), "")
    yield from (f"- {line}" for line in page.warnings)
    for title, parts in (
        ("", page.changes),
        ("Figures", page.parts),
        ("Beside the articles", page.articles),
        ("Further figures", page.further),
    ):
        if parts and title:
            yield from ("", f"## {title}")
        for part in parts:
            yield from ("", f"### {part.title}", "", *_table(part), "")
            yield from (f"{line}  " for line in part.below if line)
    yield from ("", "## What was measured, and on what", "")
    yield from _rows(("what", ""), page.about)
    for rows in (page.setups, page.nodes):
        if rows:
            yield ""
            yield from _rows(rows[0], rows[1:])


def _table(part: Part) -> Iterator[str]:
    yield from _rows(part.head, part.rows)


def _rows(head: Sequence[str], rows: Sequence[Sequence[str]]) -> Iterator[str]:
    yield f"| {' | '.join(head)} |"
    yield f"|{'---|' * len(head)}"
    for row in rows:
        yield "| " + " | ".join(cell.replace("|", "\\|").replace("\n", " ") for cell in row) + " |"
