"""The advice in words. Each figure says where it is from."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from bench import published
from bench.advise.changes import changes
from bench.advise.choose import Choice, by_figure
from bench.advise.evidence import FIGURES, Setup
from bench.advise.load import BEST, Load
from bench.advise.options import Outlook, Question
from bench.slo import Slo

#: What is ahead by less than this in others' figures may be behind in the owner's.
LITTLE = 0.05
COLUMNS = (
    "setup",
    "prefill tok/s",
    "decode tok/s",
    "first token",
    "a user tok/s",
    "whole answer",
    "at once",
    "in target",
)


def title(question: Question, load: Load) -> str:
    """What was asked."""
    nodes = "one Spark" if question.nodes == 1 else f"{question.nodes} Sparks"
    return f"{question.recipe.name} on {nodes}: {load}{_target(load.target)}; what counts: {BEST[load.best]}"


def row(question: Question, outlook: Outlook, load: Load) -> tuple[str, ...]:
    """One setup's cells."""
    if outlook.why_not:
        return (str(outlook.setup), f"- {outlook.why_not}", *("",) * 6)
    most = question.most_in_target(outlook.setup, load) if load.target else None
    return (
        str(outlook.setup),
        number(outlook.of("prefill")),
        number(outlook.of("decode")),
        seconds(outlook.of("ttft")),
        number(1 / outlook.pace if outlook.pace else None),
        seconds(outlook.whole),
        at_once(outlook),
        "" if most is None else f"{most} users" if most != 1 else "1 user",
    )


def at_once(outlook: Outlook) -> str:
    """How many are served at once, what bounds them, and for how many there is room in the KV cache."""
    room = outlook.room
    if room.at_once is None:
        return "not known"
    fit = "" if room.fit is None or room.words == "KV cache" else f"; KV cache {room.fit:,}"
    return f"{room.at_once:,} ({room.words}{fit})"


def sentences(question: Question, outlooks: Sequence[Outlook], choice: Choice, load: Load) -> Iterator[str]:
    """What to do, why, where that is from, and what would change it; a line each."""
    yield f"-> {knobs(question, choice.setup)}"
    yield from _why(outlooks, choice, load)
    if choice.most:
        setup, users = choice.most
        most = f"the most that one keeps there are {users} ({setup})" if users else "not even one alone is"
        yield f"   No setup keeps {load.users} {_users(load.users)} within the target; {most}."
        yield "   This one misses it by the least."
    chosen = next(each for each in outlooks if each.setup == choice.setup)
    if chosen.waiting:
        yield f"   {chosen.room.at_once} are served at once ({chosen.room.words}); {chosen.waiting} wait for them."
    yield ""
    yield "where the figures are from"
    yield from sources(question, outlooks)
    yield ""
    yield "what would change the answer"
    yield from (f"   {line}" for line in changes(question, outlooks, choice, load))


def knobs(question: Question, setup: Setup) -> str:
    """As they are written in group_data."""
    if setup.topology == "cluster":
        # What published clusters were joined with is not what one would take today.
        executor = setup.how if _is_own(question, setup) else "mp"
        return f"topology = cluster, executor = {executor}; one engine, so routing does not matter"
    if setup.topology == "replicas":
        return f"topology = replicas, routing = {setup.how}"
    return "topology = solo"


def _is_own(question: Question, setup: Setup) -> bool:
    return any(
        each.kind == "own run" and (setup, "decode") in getattr(each, "rows", {}) for each in question.evidence.sources
    )


def _why(outlooks: Sequence[Outlook], choice: Choice, load: Load) -> Iterator[str]:
    verdict = choice.verdict
    if verdict.tie:
        others = " and ".join(str(each) for each in verdict.ahead[1:])
        reason = "one engine may fail" if choice.setup.topology == "replicas" else "it has more room for long requests"
        yield f"   A tie with {others} in {_called(load.best)}; of those, {reason}."
    elif choice.setup == verdict.ahead[0]:
        little = ": too little to trust without runs of your own" if verdict.by < LITTLE else ""
        yield f"   It is ahead in {_called(load.best)}" + (
            f", by {verdict.by:.0%} of the next{little}." if verdict.by else "."
        )
    parts = []
    for figure in FIGURES:
        ahead = by_figure([each for each in outlooks if not each.why_not], figure)
        if ahead:
            names = " and ".join(str(each) for each in ahead.ahead)
            parts.append(
                f"{_called(figure)}: {names}" + (" (tie)" if ahead.tie else f" (+{ahead.by:.0%})" if ahead.by else "")
            )
    yield f"   Ahead in {'; '.join(parts)}."


def sources(question: Question, outlooks: Sequence[Outlook]) -> Iterator[str]:
    """Each value's own words, and the titles of what they cite."""
    for outlook in outlooks:
        told: dict[str, list[str]] = {}
        for figure in (each for each in FIGURES if each in outlook.values):
            value = outlook.values[figure]
            words = value.words if value.words.startswith(value.kind) else f"{value.kind}, {value.words}"
            told.setdefault(words, []).append(_called(figure))
        for words, figures in told.items():
            yield f"   {outlook.setup}: {' and '.join(figures) if len(figures) < 3 else 'all'}: {words}"
    words = " ".join(value.words for outlook in outlooks for value in outlook.values.values())
    for article in published.articles():
        if f"[{article.letter}]" in words:
            origin = ", ".join(filter(None, (article.publisher, article.date, article.url)))
            yield f"   [{article.letter}] {article.title} ({origin})"


def _users(count: int) -> str:
    return "user" if count == 1 else "users"


def _called(figure: str) -> str:
    return {"whole": "the whole answer", "ttft": "first token"}.get(figure, figure)


def _target(target: Slo | None) -> str:
    if target is None:
        return ""
    parts = {"first token": target.ttft_s, "a token": target.tpot_s, "all": target.e2e_s}
    return "".join(f", {name} within {seconds(value)}" for name, value in parts.items() if value)


def number(value: float | None) -> str:
    """Tokens a second."""
    return "-" if value is None else f"{value:,.0f}" if value >= 100 else f"{value:.1f}"


def seconds(value: float | None) -> str:
    """`870 ms`, `2.4 s`, `41 s`."""
    if value is None:
        return "-"
    return f"{value * 1000:.0f} ms" if value < 1 else f"{value:.1f} s" if value < 20 else f"{value:,.0f} s"
