"""The answer of a run: which setup for how many users, by how much, and how sure that is."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from statistics import fmean

from bench.advise.words import number, seconds, users
from bench.report.ahead import Ahead, each
from bench.report.series import Measured, Rows

#: What a user gets, as an owner asks for it: figure -> column.
_GETS = {"ttft": "first token", "user": "tok/s each", "whole": "whole answer", "decode": "tok/s of all"}


@dataclass(frozen=True)
class Line:
    """One number of users: `run` is what to take, `gets` what a user gets of it (a cell for each of the verdict's
    columns), `gain` over the next, `sure` in words; `is_sure`: beyond noise.
    """

    users: int
    run: str
    gets: tuple[str, ...]
    gain: str
    sure: str
    is_sure: bool


@dataclass(frozen=True)
class Verdict:
    """`headline` is the answer, `command` makes it so, `lines` are its reasons; `of` says what is compared, `gets` what
    its lines say of a user.
    """

    headline: str
    command: str
    of: str
    gets: tuple[str, ...]
    lines: list[Line]


def judged(measured: Measured) -> Rows | None:
    """The whole answer, or decode where that is not there; of several prompts the first."""
    return next((rows for name in ("whole", "decode") for rows in measured.of(name)), None)


def verdict(measured: Measured) -> Verdict | None:
    """None: nothing was measured that could be judged."""
    rows = judged(measured)
    if rows is None:
        return None
    who = each(rows)
    if not who:
        return _alone(measured, rows)
    gets = _gets(measured, rows)
    lines = [_line(rows, count, who[count], gets) for count in who]
    best = _least_lost(rows)
    name = best[0] if best else who[min(who)].names[0]
    parts = ranges(rows, who)
    is_plain = len(parts) <= 2 and not any(" or " in part or part.startswith("any") for part, _, _ in parts)
    lost = f"at worst {best[1]:.0%} behind the best" if best and best[1] > 0.005 else "never behind"
    if is_plain and len(parts) == 2:
        headline = f"Run {joined(parts)} users. If you can't say how many: {name}, {lost}."
    elif is_plain:
        headline = f"Run {name}: ahead at every number of users."
    else:
        headline = f"Run {name}: {lost}, at any number of users."
    return Verdict(headline, _command(measured, name), f"Ahead: {joined(parts)}. {_of(rows)}", _columns(gets), lines)


def _of(rows: Rows) -> str:
    what = "the whole answer" if rows.figure.name == "whole" else "tokens a second once answers have begun"
    return (
        f"Judged by {what}, the median user's; a difference counts where it is beyond what repeats differ by. "
        "Where several are named, the figures are the best one's."
    )


def _gets(measured: Measured, rows: Rows) -> list[Rows]:
    """The rows of what a user gets, of the prompt that is judged; tokens of all only where they are judged."""
    names = [name for name in _GETS if name != "decode" or rows.figure.name == "decode"]
    return [found for name in names for found in measured.of(name) if found.prompt == rows.prompt]


def _columns(gets: Sequence[Rows]) -> tuple[str, ...]:
    return tuple(_GETS[each_.figure.name] for each_ in gets)


def _alone(measured: Measured, rows: Rows) -> Verdict:
    name = rows.setups[0]
    most = max(rows.users)
    gets = _gets(measured, rows)
    columns = _columns(gets)
    pairs = zip(columns, _cells(gets, most, name), strict=True)
    said = ", ".join(f"{cell} {word}" if word.startswith("tok/s") else f"{word} {cell}" for word, cell in pairs)
    return Verdict(
        f"One setup was measured ({name}): there is nothing to choose between. {users(most)}: {said}.",
        'tandem bench --topologies "solo cluster replicas"',
        "The command measures the others beside it.",
        columns,
        [Line(count, name, _cells(gets, count, name), "", "measured", True) for count in rows.users],
    )


def _line(rows: Rows, count: int, who: Ahead, gets: Sequence[Rows]) -> Line:
    run = together(rows, who.names)
    cells = _cells(gets, count, who.names[0])
    repeats = min(len(values) for values in rows.values[count].values())
    of = f"{repeats} repeat{'s' * (repeats > 1)}"
    behind = [name for name in rows.setups if name in rows.values[count] and name not in who.names]
    gain = ""
    if who.by is not None and behind:
        next_ = min(
            behind, key=lambda name: fmean(rows.values[count][name]) * (1 if rows.figure.less_is_better else -1)
        )
        word = "sooner" if rows.figure.less_is_better else "more"
        gain = f"{abs(who.by):.0%} {word} than {next_}"
    if len(who.names) == 1:
        return Line(count, run, cells, gain, f"sure ({of})", True)
    if who.more is None and repeats == 1:
        # One number has no spread: nothing says that two are the same.
        open_, is_sure = "too few repeats to tell: there is one", False
    elif who.more is None:
        open_, is_sure = f"no difference to be seen ({of})", True
    else:
        open_, is_sure = f"too few repeats to tell: {who.more} more", False
    # That the others are behind is sure: what is open is which of those that are named.
    return Line(count, run, cells, gain, f"which one: {open_}" if gain else open_, is_sure)


def _cells(gets: Sequence[Rows], count: int, name: str) -> tuple[str, ...]:
    return tuple(_cell(found, found.values.get(count, {}).get(name, ())) for found in gets)


def _cell(rows: Rows, values: Sequence[float]) -> str:
    if not values:
        return "-"
    return seconds(fmean(values) / 1000) if rows.figure.unit == "ms" else number(fmean(values))


def cluster(measured: Measured) -> str:
    """Where a cluster is ahead, in a sentence; empty: there is none, or nothing that it could be ahead of."""
    rows = judged(measured)
    who = each(rows) if rows else {}
    clusters = {name for name in rows.setups if name.startswith("cluster")} if rows else set()
    if not who or not clusters or clusters == set(measured.setups):
        return ""
    ahead = [count for count, found in who.items() if clusters >= set(found.names)]
    level = [count for count, found in who.items() if count not in ahead and clusters & set(found.names)]
    said = f"A cluster is ahead for {_listed(ahead)}" if ahead else "A cluster is ahead nowhere"
    return said + (f"; for {_listed(level)} it can't be told from the best." if level else ".")


def _listed(counts: Sequence[int]) -> str:
    """`1, 2 and 4 users`."""
    *others, last = counts
    return f"{', '.join(map(str, others))} and {users(last)}" if others else users(last)


def ranges(rows: Rows, who: dict[int, Ahead]) -> list[tuple[str, int, int]]:
    """Who is ahead from which number of users to which: neighbours of the same answer together."""
    parts: list[tuple[str, int, int]] = []
    for count, found in who.items():
        name = together(rows, found.names)
        if parts and parts[-1][0] == name:
            parts[-1] = (name, parts[-1][1], count)
        else:
            parts.append((name, count, count))
    return parts


def joined(parts: list[tuple[str, int, int]]) -> str:
    """Ranges in words: `cluster/mp for 1 to 16 users, replicas from 32`. `parts`: (setup, from, to), users ascending;
    the last one has no end.
    """
    if len(parts) == 1:
        return f"{parts[0][0]} for every number of users"
    return ", ".join(
        f"{name} from {low}" if number == len(parts) else f"{name} for {low}{f' to {high}' if high != low else ''}"
        for number, (name, low, high) in enumerate(parts, 1)
    )


def together(rows: Rows, names: Sequence[str]) -> str:
    """Several setups, as short as can be: all ways of a topology are that topology."""
    if len(names) == len(rows.setups) > 1:
        return "any of them"
    found: list[str] = []
    for name in sorted(names, key=rows.setups.index):
        topology = name.split("/")[0]
        ways = [each_ for each_ in rows.setups if each_.split("/")[0] == topology]
        is_whole = len(ways) > 1 and set(ways) <= set(names)
        found.append(f"{topology} (either)" if is_whole else name)
    return " or ".join(dict.fromkeys(found))


def _least_lost(rows: Rows) -> tuple[str, float] | None:
    """Which setup loses least over all numbers of users, and how much."""
    names = [name for name in rows.setups if all(name in rows.values[count] for count in rows.users)]
    lost = {name: max(_behind(rows, count, name) for count in rows.users) for name in names}
    return min(lost.items(), key=lambda each_: each_[1]) if lost else None


def _behind(rows: Rows, count: int, name: str) -> float:
    means = {other: fmean(values) for other, values in rows.values[count].items()}
    if rows.figure.less_is_better:
        return means[name] / min(means.values()) - 1
    return 1 - means[name] / max(means.values())


def _command(measured: Measured, name: str) -> str:
    setup = next(each_ for each_ in measured.run.setups if each_.name == name)
    data = [f"topology={setup.topology}"]
    if setup.topology == "cluster":
        data.append(f"executor={setup.executor}")
        data += [f"pipeline_parallel={setup.stages}"] if setup.stages > 1 else []
    elif setup.topology == "replicas":
        data.append(f"routing={setup.routing}")
    return f"tandem apply {' '.join(data)}"


def text(found: Verdict) -> Iterator[str]:
    """For Markdown."""
    yield f"**{found.headline}**"
    yield ""
    yield f"`{found.command}`"
    yield ""
    yield f"| users | run | {' | '.join(found.gets)} | ahead | how sure |"
    yield f"|---|---|{'---|' * len(found.gets)}---|---|"
    for line in found.lines:
        yield f"| {line.users} | {line.run} | {' | '.join(line.gets)} | {line.gain} | {line.sure} |"
    yield ""
    yield found.of
