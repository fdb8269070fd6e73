"""The answer of a run: which setup for how many users, by how much, and how sure that is."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from statistics import fmean

from bench.advise.words import seconds, users
from bench.report.ahead import Ahead, each
from bench.report.series import Measured, Rows


@dataclass(frozen=True)
class Line:
    """One number of users: `run` is what to take, `gain` over the next, `sure` in words; `is_sure`: beyond noise."""

    users: int
    run: str
    figures: str
    gain: str
    sure: str
    is_sure: bool


@dataclass(frozen=True)
class Verdict:
    """`headline` is the answer, `command` makes it so, `lines` are its reasons; `of` says what is compared."""

    headline: str
    command: str
    of: str
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
    lines = [_line(rows, count, who[count]) for count in who]
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
    return Verdict(headline, _command(measured, name), f"Ahead: {joined(parts)}. {_of(rows)}", lines)


def _of(rows: Rows) -> str:
    what = "the whole answer" if rows.figure.name == "whole" else "tokens of answers a second"
    return f"Judged by {what}, the median user's; a difference counts where it is beyond what repeats differ by."


def _alone(measured: Measured, rows: Rows) -> Verdict:
    name = rows.setups[0]
    most = max(rows.users)
    return Verdict(
        f"One setup was measured ({name}): there is nothing to choose between. "
        f"{users(most)}: {_figures(rows, most, name)}.",
        'tandem bench --topologies "solo cluster replicas"',
        "The command measures the others beside it.",
        [Line(count, name, _figures(rows, count, name), "", "measured", True) for count in rows.users],
    )


def _line(rows: Rows, count: int, who: Ahead) -> Line:
    run = together(rows, who.names)
    figures = _figures(rows, count, who.names[0])
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
        return Line(count, run, figures, gain, f"sure ({of})", True)
    if who.more is None and repeats == 1:
        # One number has no spread: nothing says that two are the same.
        return Line(count, run, figures, gain, "too few repeats to tell: there is one", False)
    if who.more is None:
        return Line(count, run, figures, gain, f"no difference to be seen ({of})", True)
    return Line(count, run, figures, gain, f"too few repeats to tell: {who.more} more", False)


def _figures(rows: Rows, count: int, name: str) -> str:
    mean = fmean(rows.values[count][name])
    return seconds(mean / 1000) if rows.figure.unit == "ms" else f"{mean:,.0f} {rows.figure.unit}"


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
    yield "| users | run | whole answer | ahead | how sure |"
    yield "|---|---|---|---|---|"
    for line in found.lines:
        yield f"| {line.users} | {line.run} | {line.figures} | {line.gain} | {line.sure} |"
    yield ""
    yield found.of
