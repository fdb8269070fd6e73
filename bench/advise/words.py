"""Figures and setups in words, the same on the terminal, in a report and on the page."""

from __future__ import annotations

import shlex
import shutil
import textwrap
from collections.abc import Iterator, Sequence

from bench.advise.options import Question
from bench.advise.setups import Setup

#: Columns beyond which nobody reads on, and those that are left for a table's last column where it stands beside.
WIDTH, LAST = 98, 20


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


def sparks(count: int) -> str:
    """`1 Spark`."""
    return f"{count} Spark{'' if count == 1 else 's'}"


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


def command(question: Question, setup: Setup, declared: str, is_own: bool) -> str:
    """What makes it so. Routing and executor stay as they are declared, unless the owner's own runs have others."""
    data = _other(question, declared)
    data.append(f"topology={setup.topology}")
    if setup.group > 1:
        data.append(f"nodes_per_replica={setup.group}")
    if is_own and setup.how:
        how, _, stages = setup.how.partition(", pipeline_parallel = ")
        data.append(f"{'executor' if setup.topology == 'cluster' else 'routing'}={how}")
        data += [f"pipeline_parallel={stages}"] if stages else []
    return f"tandem apply {' '.join(data)}"


def measuring(question: Question, declared: str) -> str:
    """The bench of all ways in which a question may be answered."""
    return " ".join(bench_words(question, declared))


def bench_words(question: Question, declared: str) -> list[str]:
    """The command of `measuring` in pieces that are quoted for a shell: an option and its value are one."""
    names = " ".join(dict.fromkeys(setup.topology for setup in question.setups()))
    return ["tandem bench", *_other(question, declared), f'--topologies "{names}"']


def _other(question: Question, declared: str) -> list[str]:
    return [f"recipe={shlex.quote(question.named)}"] if question.named != declared else []


def width() -> int:
    """Columns of the terminal; of a file or a pipe as many as are read well."""
    return min(WIDTH, shutil.get_terminal_size((WIDTH, 24)).columns)


def folded(text: str, indent: str = "") -> str:
    """Lines of a terminal's width."""
    return textwrap.fill(
        text,
        width(),
        initial_indent=indent,
        subsequent_indent=indent or "  ",
        break_long_words=False,
        # A name that is cut at its hyphen can't be copied.
        break_on_hyphens=False,
    )


def copied(words: Sequence[str], indent: str) -> str:
    """A command within a terminal's width, as lines that a shell takes for one. `words`: as a shell takes them."""
    lines = [indent]
    for word in words:
        if len(f"{lines[-1]}{word} \\") > width() and lines[-1].strip():
            lines[-1] += "\\"
            lines.append(f"{indent}  ")
        lines[-1] += f"{word} "
    return "\n".join(line.rstrip() for line in lines)


def table(columns: Sequence[str], rows: Sequence[Sequence[str]]) -> Iterator[str]:
    """Aligned, in a terminal's width: what is too long in the last column goes on below; where it has no room beside
    the others it stands below them.
    """
    widths = [max(map(len, column)) for column in zip(columns, *rows, strict=True)]
    before = sum(widths[:-1]) + 2 * (len(columns) - 1)
    is_beside = width() - before >= min(LAST, widths[-1])
    for each in (columns, *rows):
        start = "".join(f"{cell:<{width_}}  " for cell, width_ in zip(each[:-1], widths[:-1], strict=True))
        first, *more = textwrap.wrap(each[-1], max(width() - before, LAST) if is_beside else width() - 2) or [""]
        if not is_beside:
            yield start.rstrip()
            yield from (f"  {line}" for line in (first, *more) if line)
            continue
        yield (start + first).rstrip()
        yield from (" " * before + line for line in more)


def by(share: float) -> str:
    """How far ahead: `by 12%`, `3.9 times`."""
    return f"by {share:.0%}" if share < 1 else f"{1 + share:.1f} times"
