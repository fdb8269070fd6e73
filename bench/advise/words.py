"""Figures and setups in words, the same on the terminal, in a report and on the page."""

from __future__ import annotations

import textwrap
from collections.abc import Iterable, Iterator, Sequence

from bench.advise.choose import ERRORS, LARGEST, worst
from bench.advise.options import Outlook, Question
from bench.advise.setups import Kind, Setup

#: Columns of a terminal that everybody has.
WIDTH = 98


def number(value: float | None) -> str:
    """Tokens a second."""
    return "-" if value is None else f"{value:,.0f}" if value >= 20 else f"{value:.1f}"


def seconds(value: float | None) -> str:
    """`870 ms`, `2.4 s`, `41 s`, `5 min`."""
    if value is None:
        return "-"
    if value < 1:
        return f"{value * 1000:.0f} ms"
    return f"{value:.1f} s" if value < 9.95 else f"{value:,.0f} s" if value < 180 else f"{value / 60:,.0f} min"


def users(count: int) -> str:
    """`1 user`."""
    return f"{count} user{'' if count == 1 else 's'}"


def called(setup: Setup, nodes: int = 2) -> str:
    """A setup in a sentence; `nodes`: how many there are, so that what takes all of them need not be said."""
    if setup.topology == "solo":
        return "solo"
    if setup.group > 1:
        return "replicas of pairs"
    all_ = setup.nodes == nodes
    if setup.topology == "cluster":
        return "the cluster" if all_ else f"a cluster of {setup.nodes}"
    return "replicas" if all_ else f"replicas on {setup.nodes}"


_KINDS: dict[Kind, str] = {
    "own run": "measured here",
    "published": "measured by others",
    "computed": "computed",
    "estimate": "estimated",
}


def kind_of(outlook: Outlook) -> str:
    """Where its figures are from, in a word or two."""
    if not _is_measured(outlook) and outlook.setup.ranks > LARGEST:
        return f"computed; nobody has measured clusters of {outlook.setup.ranks}"
    return _KINDS[outlook.kind]


def sure(outlook: Outlook) -> str:
    """The same with the error as a rule, and the worst that was found."""
    return f"{kind_of(outlook)}, {off}" if (off := _off(outlook)) else kind_of(outlook)


def errors(outlooks: Iterable[Outlook]) -> Iterator[str]:
    """A line for above a table: how far off its figures may be. None where all of them are measured."""
    kinds = {kind_of(each): off for each in outlooks if each.point and (off := _off(each))}
    if kinds:
        yield folded(f"Figures that are {'; '.join(f'{kind} are {off}' for kind, off in kinds.items())}.")


def _off(outlook: Outlook) -> str:
    """Empty for what is measured, and for a cluster that is larger than any in a table: nobody knows."""
    if _is_measured(outlook) or outlook.setup.ranks > LARGEST:
        return ""
    return f"off by {ERRORS[outlook.kind]:.0%}, at worst {worst(outlook):.0%}"


def _is_measured(outlook: Outlook) -> bool:
    return outlook.kind in ("own run", "published")


def command(question: Question, setup: Setup, declared: str, is_own: bool) -> str:
    """What makes it so. Routing and executor stay as they are declared, unless the owner's own runs have others."""
    data = [f"recipe={question.recipe.name}"] if question.recipe.name != declared else []
    data.append(f"topology={setup.topology}")
    if setup.group > 1:
        data.append(f"nodes_per_replica={setup.group}")
    if is_own and setup.how:
        how, _, stages = setup.how.partition(", pipeline_parallel = ")
        data.append(f"{'executor' if setup.topology == 'cluster' else 'routing'}={how}")
        data += [f"pipeline_parallel={stages}"] if stages else []
    return f"tandem apply {' '.join(data)}"


def folded(text: str, indent: str = "") -> str:
    """Lines of a terminal's width."""
    return textwrap.fill(
        text,
        WIDTH,
        initial_indent=indent,
        subsequent_indent=indent or "  ",
        break_long_words=False,
        # A name that is cut at its hyphen can't be copied.
        break_on_hyphens=False,
    )


def table(columns: Sequence[str], rows: Sequence[Sequence[str]]) -> Iterator[str]:
    """Aligned, in a terminal's width: what is too long in the last column goes on below."""
    widths = [max(map(len, column)) for column in zip(columns, *rows, strict=True)]
    before = sum(widths[:-1]) + 2 * (len(columns) - 1)
    for each in (columns, *rows):
        start = "".join(f"{cell:<{width}}  " for cell, width in zip(each[:-1], widths[:-1], strict=True))
        first, *more = textwrap.wrap(each[-1], max(WIDTH - before, 20)) or [""]
        yield (start + first).rstrip()
        yield from (" " * before + line for line in more)


def by(share: float) -> str:
    """How far ahead: `by 12%`, `3.9 times`."""
    return f"by {share:.0%}" if share < 1 else f"{1 + share:.1f} times"
