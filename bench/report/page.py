"""All that a report says, as plain values; the template and the Markdown only lay it out."""

from __future__ import annotations

import time
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from statistics import fmean

from bench.advise.measured import setup_of
from bench.noise import spread
from bench.report import surroundings, words
from bench.report.ahead import crossings, each
from bench.report.beside import beside, note, sources
from bench.report.changed import Change, changes, headline
from bench.report.plots import PUBLISHED, over_users, published_points
from bench.report.series import MAIN, PROXY, Measured, Rows
from bench.report.verdict import Verdict, together, verdict


@dataclass(frozen=True)
class Part:
    """A table with its plot, and where lines cross."""

    title: str
    head: tuple[str, ...]
    rows: Sequence[tuple[str, ...]]
    svg: str = ""
    below: tuple[str, ...] = ()
    #: The second column says who is ahead, or the last which way it went.
    is_judged: bool = True
    #: So many columns at the left are words.
    words: int = 0


@dataclass(frozen=True)
class Page:
    """A whole report."""

    title: str
    verdict: Verdict | None
    besides: list[str]
    warnings: list[str]
    #: Whether there are open markers in the plots.
    has_published: bool
    changes: list[Part]
    parts: list[Part]
    further: list[Part]
    articles: list[Part]
    about: surroundings.Table
    setups: surroundings.Table
    nodes: surroundings.Table


def page(measured: Measured, names: Sequence[str], against: Measured | None) -> Page:
    """`names`: the figures that are wanted."""
    shown = [rows for rows in _ordered(measured, names) if _says_something(rows)]
    main = [rows for rows in shown if rows.figure.name in MAIN and rows.target == PROXY]
    parts = [_part(measured, rows, plot=True) for rows in main]
    return Page(
        title=f"{measured.run.recipe}: {', '.join(measured.setups) or 'nothing came up'}; {_load(measured)}",
        verdict=_verdict(measured, against),
        besides=words.besides(measured),
        warnings=list(words.warnings(measured)),
        has_published=any(PUBLISHED in part.svg for part in parts),
        changes=_changes(measured, against, names) if against else [],
        parts=parts,
        further=[_part(measured, rows, plot=False) for rows in shown if rows not in main],
        articles=_articles(measured),
        about=surroundings.about(measured),
        setups=surroundings.setups(measured),
        nodes=surroundings.nodes(measured),
    )


def _verdict(measured: Measured, against: Measured | None) -> Verdict | None:
    """Beside another run the change comes first: it is what was asked."""
    found = verdict(measured)
    said = headline(changes(measured, against), against.path.name) if against else ""
    return replace(found, headline=f"{said} {found.headline}") if found and said else found


def _load(measured: Measured) -> str:
    """What was asked of it, and when: figures mean nothing without."""
    asked = [step for step in measured.steps if not step.is_known]
    lengths = [
        f"{', '.join(f'{each:,}' for each in sorted(found))} {word}"
        for found, word in (
            ({step.prompt_tokens for step in asked if step.prompt_tokens}, "tokens in"),
            ({step.answer_tokens for step in asked if step.answer_tokens}, "out"),
        )
        if found
    ]
    when = time.strftime("%Y-%m-%d", time.gmtime(measured.run.began))
    return ", ".join((f"profile {measured.run.profile}", *lengths, when))


def _ordered(measured: Measured, names: Sequence[str]) -> list[Rows]:
    targets = measured.targets
    wanted = [rows for rows in measured.rows if rows.figure.name in names]
    return sorted(
        wanted, key=lambda rows: (targets.index(rows.target), names.index(rows.figure.name), len(rows.prompt))
    )


def _says_something(rows: Rows) -> bool:
    """Nobody wants a table of no errors."""
    counts = rows.figure.name in ("errors", "wrong")
    return not counts or any(any(values) for row in rows.values.values() for values in row.values())


def _part(measured: Measured, rows: Rows, plot: bool) -> Part:
    missing = [setup.name for setup in measured.run.setups if setup.why_not and rows.target == PROXY]
    who = each(rows)
    body = []
    for users in rows.users:
        cells = [cell(rows.values[users].get(name, ())) for name in rows.setups] + ["did not come up"] * len(missing)
        found = who.get(users)
        judged = [found.told(together(rows, found.names)) if found else ""] if rows.figure.is_judged else []
        body.append((str(users), *judged, *cells))
    judged_head = ("ahead",) if rows.figure.is_judged else ()
    columns = {setup.name: setup_of(setup) for setup in measured.run.setups}
    theirs = {name: where.how if where.topology == "replicas" else where.topology for name, where in columns.items()}
    points = published_points(rows, theirs, measured.run.recipe) if not rows.prompt else {}
    return Part(
        title=_title(rows),
        head=("users", *judged_head, *rows.setups, *missing),
        rows=body,
        svg=over_users(rows, [each.name for each in measured.run.setups], points) if plot else "",
        below=tuple(crossings(rows)) if rows.figure.is_judged and rows.target == PROXY else (),
        is_judged=rows.figure.is_judged,
    )


def _title(rows: Rows) -> str:
    unit = f", {rows.figure.unit}" if rows.figure.unit else ""
    prompt = f", prompts of {int(rows.prompt[1:]):,} tokens" if rows.prompt[1:].isdigit() else ""
    where = "" if rows.target == PROXY else f", {rows.target}'s engine asked directly"
    return f"{rows.figure.title}{unit}{prompt}{where}"


def _articles(measured: Measured) -> list[Part]:
    cited = "; ".join(
        f"[{each.letter}] {each.title}" + (f", {each.url}" if each.url else "") for each in sources(measured)
    )
    parts = []
    for table in beside(measured):
        rows = [
            (
                str(row.users),
                row.setup,
                number(row.own),
                number(row.published),
                f"{row.ratio:.2f}" if row.ratio else "",
                row.source,
            )
            for row in table.rows
        ]
        head = ("users", "setup", "here", "published", "here over published", "source")
        parts.append(Part(f"{table.figure}, {table.unit}", head, rows, is_judged=False))
    if parts:
        last = parts[-1]
        parts[-1] = Part(last.title, last.head, last.rows, below=(note(measured), cited), is_judged=False)
    return parts


def _changes(now: Measured, before: Measured, names: Sequence[str]) -> list[Part]:
    """A row for each figure and setup that changed somewhere, a column for each number of users."""
    found = [each_ for each_ in changes(now, before) if each_.rows.figure.name in names]
    by_row: dict[tuple[str, str], dict[int, Change]] = {}
    for each_ in found:
        by_row.setdefault((_title(each_.rows), each_.setup), {})[each_.users] = each_
    users = sorted({each_.users for each_ in found})
    rows = [
        (*key, *(_change(row.get(count)) for count in users), _direction(row.values()))
        for key, row in by_row.items()
        if any(each_.is_sure for each_ in row.values())
    ]
    sure = sum(each_.is_sure for each_ in found)
    said = f"Of {len(found)} figures that both runs have, {sure} changed by more than the noise of both; = did not."
    head = ("figure", "setup", *map(str, users), "")
    return [Part(f"Against {before.path.name}", head, rows, below=(said,), words=2)]


def _change(change: Change | None) -> str:
    return "" if change is None else f"{change.relative:+.1%}" if change.is_sure else "="


def _direction(row: Iterable[Change]) -> str:
    ways = {change.is_better for change in row if change.is_sure}
    return "mixed" if len(ways) == 2 else "better" if True in ways else "worse"


def cell(values: Sequence[float]) -> str:
    """The mean of the repeats, with half of their range."""
    found = spread(values)
    if found is None:
        return ""
    half = (found.high - found.low) / 2
    return number(fmean(values)) + (f" ±{number(half)}" if half else "")


def number(value: float | None) -> str:
    """As many digits as mean something."""
    if value is None:
        return ""
    return f"{value:,.0f}" if abs(value) >= 100 else f"{value:.1f}" if abs(value) >= 10 else f"{value:.2f}"
