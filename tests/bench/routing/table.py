"""The bench's figures: one step's, and the table of all of them."""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from dataclasses import dataclass

from bench.client.stream import Answer
from bench.figures import percentiles
from tests.bench.routing.counters import Counts

#: Of the table; each figure is the repeats' median with their least and most.
COLUMNS = ("users", "door", "requests", "tokens", "busiest", "TTFT p50, s", "p99, s", "prefix hits", "took, s", "lost")


@dataclass(frozen=True)
class Step:
    """One load against one door, once."""

    door: str
    load: str
    users: int
    repeat: int
    #: The engine with the most requests over the ideal, by the engines' own counters.
    share: float
    #: The same of the tokens of answers: what remains where requests differ.
    tokens: float
    #: How evenly the engines were busy meanwhile (`counters.Looks`); None: there was nothing to share.
    skew: float | None
    sent: int
    lost: int
    #: Seconds on the engines' clock.
    ttft_p50: float
    ttft_p99: float
    took: float
    #: Of the prompts' tokens, those that the prefix cache had; None: it was not asked.
    hits: float | None


def step(
    door: str, load: str, users: int, repeat: int, answers: Sequence[Answer], counted: Sequence[Counts], **more: float
) -> Step:
    """From what clients saw and engines counted; `more`: `took`, `speed`, and `skew` where there is one."""
    queries = sum(each.queries for each in counted)
    speed = more["speed"]
    first = percentiles([(each.pieces[0] - each.sent) * speed for each in answers if each.pieces])
    return Step(
        door=door,
        load=load,
        users=users,
        repeat=repeat,
        share=_over_ideal([each.requests for each in counted]),
        tokens=_over_ideal([each.tokens for each in counted]),
        skew=more.get("skew"),
        sent=len(answers),
        lost=sum(bool(each.error) for each in answers),
        ttft_p50=first.p50 if first else 0.0,
        ttft_p99=first.p99 if first else 0.0,
        took=more["took"] * speed,
        hits=sum(each.hits for each in counted) / queries if queries else None,
    )


def _over_ideal(values: Sequence[float]) -> float:
    return max(values) * len(values) / sum(values) if any(values) else 0.0


def markdown(steps: Sequence[Step]) -> str:
    """A table for each load: medians, and the least and the most of the repeats in brackets."""
    text = ""
    for load in dict.fromkeys(each.load for each in steps):
        text += f"\n**{load}**\n\n| {' | '.join(COLUMNS)} |\n|{'---|' * len(COLUMNS)}\n"
        for users in sorted({each.users for each in steps if each.load == load}):
            for door in dict.fromkeys(each.door for each in steps):
                of = [each for each in steps if (each.load, each.users, each.door) == (load, users, door)]
                if of:
                    text += f"| {users} | {door} | {_row(of)} |\n"
    return text


def _row(steps: Sequence[Step]) -> str:
    cells = [
        _spread([each.share for each in steps]),
        _spread([each.tokens for each in steps]),
        _spread([each.skew for each in steps if each.skew is not None]),
        _spread([each.ttft_p50 for each in steps]),
        _spread([each.ttft_p99 for each in steps]),
        _spread([100 * each.hits for each in steps if each.hits is not None], "{:.0f}%"),
        _spread([each.took for each in steps], "{:.0f}"),
        f"{sum(each.lost for each in steps)} of {sum(each.sent for each in steps)}",
    ]
    return " | ".join(cells)


def _spread(values: Sequence[float], form: str = "{:.2f}") -> str:
    if not values:
        return "-"
    middle = form.format(statistics.median(values))
    if len(values) == 1:
        return middle
    return f"{middle} ({form.format(min(values))} to {form.format(max(values))})"
