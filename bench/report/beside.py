"""The articles' own figures for the same recipe, beside the owner's."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from statistics import fmean

from bench import published
from bench.advise.measured import setup_of
from bench.records import Run
from bench.report.series import PROXY, Measured, Rows

#: A setup as it is called here -> the articles' column.
_COLUMNS: Mapping[str, published.Column] = {"solo": "solo", "cluster": "cluster"}


@dataclass(frozen=True)
class Row:
    """One published figure and the owner's of the same setup and users."""

    users: int
    setup: str
    published: float
    own: float | None
    source: str

    @property
    def ratio(self) -> float | None:
        """Own over published."""
        return self.own / self.published if self.own is not None else None


@dataclass(frozen=True)
class Table:
    """One figure's; `note` says where loads differ."""

    figure: str
    unit: str
    rows: list[Row]


def beside(measured: Measured) -> list[Table]:
    """A table a figure that was published for this recipe and measured here."""
    found = []
    for figure in published.FIGURES:
        rows = next(iter(measured.of(figure)), None)
        cells = [cell for cell in published.cells(recipe=measured.run.recipe) if cell.figure == figure]
        if rows and cells:
            found.append(Table(rows.figure.title, rows.figure.unit, list(_table(measured.run, rows, cells))))
    return [table for table in found if table.rows]


def _table(run: Run, rows: Rows, cells: list[published.Cell]) -> list[Row]:
    found = []
    for setup in run.setups:
        where = setup_of(setup)
        column = where.how if where.topology == "replicas" else _COLUMNS[where.topology]
        for cell in cells:
            own = rows.values.get(cell.users, {}).get(setup.name)
            if cell.column == column and cell.value is not None and own:
                found.append(Row(cell.users, setup.name, cell.value, fmean(own), cell.source))
    return sorted(found, key=lambda each: (each.setup, each.users))


def note(measured: Measured) -> str:
    """How the articles measured, where this run did not measure the same."""
    cells = published.cells(recipe=measured.run.recipe)
    if not cells:
        return ""
    load = cells[0].load
    mine = {(step.prompt_tokens, step.answer_tokens) for step in measured.steps if step.target == PROXY}
    tool = f"They were measured with {load.tool}"
    lengths = f", {load.prompt:,} tokens in and {load.answer:,} out" if load.prompt and load.answer else ""
    same = (load.prompt, load.answer) in mine
    return f"{tool}{lengths}{'' if same or not lengths else '; this run has another load, so the ratio says little'}."


def sources(measured: Measured) -> list[published.Article]:
    """What is cited."""
    used = {cell.article.title: cell.article for cell in published.cells(recipe=measured.run.recipe)}
    return list(used.values())
