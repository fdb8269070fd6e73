"""Plots over users, as SVG in the page's text colour. Setups differ in marker and line as well as in colour."""

from __future__ import annotations

import io
import re
from collections.abc import Sequence
from statistics import fmean
from typing import Any

import matplotlib
from matplotlib.axes import Axes
from matplotlib.figure import Figure as Canvas

from bench import published
from bench.report.series import Rows

matplotlib.use("svg")

PUBLISHED = ", published"
#: Replaced by the page's own colour in the SVG: matplotlib has no name for it.
_TEXT = "#010203"
#: Of Okabe and Ito's palette, made so that each has contrast 3 or more on white and on the dark page.
_STYLES = (
    ("#2b7bba", "o", "-"),
    ("#c2620f", "s", "--"),
    ("#0f9068", "^", "-."),
    ("#b0589a", "D", ":"),
    ("#8a7a1f", "v", (0, (5, 1, 1, 1, 1, 1))),
    ("#777777", "P", (0, (1, 1))),
)
#: Any: the stubs want each name as a literal.
_SETTINGS: Any = {
    "svg.fonttype": "none",
    "font.family": "sans-serif",
    "font.size": 10,
    "text.color": _TEXT,
    "axes.edgecolor": _TEXT,
    "axes.labelcolor": _TEXT,
    "xtick.color": _TEXT,
    "ytick.color": _TEXT,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "legend.frameon": False,
}


def over_users(rows: Rows, setups: Sequence[str], articles: dict[str, dict[int, float]]) -> str:
    """One figure; `setups`: all of the report, so that each looks the same everywhere. `articles`: published figures by
    setup and users, drawn small and open.
    """
    salt = {"svg.hashsalt": f"{rows.figure.name}/{rows.target}/{rows.prompt}"}
    with matplotlib.rc_context(_SETTINGS | salt):
        canvas = Canvas(figsize=(4.6, 3.1), layout="constrained")
        axes = canvas.subplots()
        for name in rows.setups:
            _draw(axes, rows, name, *_STYLES[setups.index(name) % len(_STYLES)])
        for name, points in articles.items():
            colour, marker, _ = _STYLES[setups.index(name) % len(_STYLES)]
            axes.plot(list(points), list(points.values()), color=colour, marker=marker, markersize=4,
                      markerfacecolor="none", linestyle="none", alpha=0.8, label=name + PUBLISHED)  # fmt: skip
        _axes(axes, rows, articles)
        # Measured ones first: matplotlib has lines before those with bars.
        handles, labels = axes.get_legend_handles_labels()
        order = sorted(range(len(labels)), key=lambda number: labels[number].endswith(PUBLISHED))
        axes.legend([handles[number] for number in order], [labels[number] for number in order],
                    loc="upper left", bbox_to_anchor=(0, -0.24), ncols=2, borderaxespad=0)  # fmt: skip
        return _svg(canvas, f"{rows.figure.title} over users")


def _draw(axes: Axes, rows: Rows, name: str, colour: str, marker: str, line: str | tuple[object, ...]) -> None:
    users = [each for each in rows.users if name in rows.values[each]]
    values = [rows.values[each][name] for each in users]
    means = [fmean(each) for each in values]
    spread = [
        [max(mean - min(each), 0.0) for mean, each in zip(means, values, strict=True)],
        [max(max(each) - mean, 0.0) for mean, each in zip(means, values, strict=True)],
    ]
    axes.errorbar(users, means, yerr=spread, color=colour, marker=marker, markersize=6, linewidth=1.8,
                  linestyle=line, capsize=3, label=name)  # fmt: skip


def _axes(axes: Axes, rows: Rows, articles: dict[str, dict[int, float]]) -> None:
    users = sorted({*rows.users, *(each for points in articles.values() for each in points)})
    axes.set_xscale("log", base=2)
    axes.set_xticks(users, [str(each) for each in users])
    axes.minorticks_off()
    axes.set_xlabel("users at once")
    axes.set_ylabel(rows.figure.unit)
    axes.set_ylim(bottom=0)
    axes.grid(axis="y", color=_TEXT, alpha=0.15, linewidth=0.8)


def published_points(rows: Rows, setups: dict[str, str], recipe: str) -> dict[str, dict[int, float]]:
    """The articles' figures of the setups here; `setups`: name -> their column."""
    found: dict[str, dict[int, float]] = {}
    for cell in published.cells(recipe=recipe):
        for name, column in setups.items():
            is_here = cell.figure == rows.figure.name and cell.column == column and name in rows.setups
            if is_here and cell.value is not None:
                found.setdefault(name, {})[cell.users] = cell.value
    return {name: dict(sorted(points.items())) for name, points in found.items()}


def _svg(canvas: Canvas, title: str) -> str:
    """To be put into a page: without prologue, as wide as its place, in the page's colour."""
    buffer = io.StringIO()
    canvas.savefig(buffer, format="svg", transparent=True, metadata={"Date": None, "Creator": None})
    text = buffer.getvalue()
    text = text[text.index("<svg") :].replace(_TEXT, "currentColor")
    text = re.sub(r"<metadata>.*?</metadata>", "", text, flags=re.DOTALL)
    root, rest = text.split(">", 1)
    root = re.sub(r' (width|height)="[^"]*"', "", root)
    return f'{root} role="img" aria-label="{title}">{rest}'
