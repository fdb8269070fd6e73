"""What would change an advice: other numbers of users, the recipe's bounds, routing, and measuring it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from bench.advise.choose import by_figure, crossings
from bench.advise.load import Load
from bench.advise.options import Outlook, Question
from bench.advise.tell import NAMES
from bench.advise.words import bench_words, called, copied
from operations.plan.engines import ENGINES


def changes(question: Question, outlooks: Sequence[Outlook], load: Load) -> Iterator[str]:
    """A line each."""
    yield from _users(question, load)
    yield from _bounds(question, outlooks, load)
    if question.model and question.model.state_mib and load.prompt > 32_000:
        yield (
            "room is counted in bytes; at long contexts vLLM lays out hybrid models with less (200K tokens of "
            "Nemotron-3-Super: 7.48 requests at once in its log [E], 31 by bytes)"
        )
    if load.cached:
        yield "a cached prompt counts as not read again; nobody has measured that on Sparks with this recipe"
    if question.evidence.estimated and question.evidence.estimated.drafts:
        yield "tokens are drafted: how many are taken depends on what is written, and others' figures are of their text"


def own_figures(question: Question, outlooks: Sequence[Outlook], load: Load, declared: str) -> Iterator[str]:
    """Lines with the bench of just this load, where anything told is not of the owner's own runs."""
    if {each.kind for each in outlooks if each.point} != {"own run"}:
        yield "   your own figures, which this reads from then on:"
        words = [*bench_words(question, declared), f"--prompt {load.prompt}", f"--answer {load.answer}"]
        yield copied(words, "     ")


def _users(question: Question, load: Load) -> Iterator[str]:
    for what in dict.fromkeys((load.best, "ttft")):
        turns = crossings(question, load, what)
        if len(turns) < 2:
            yield f"no number of users up to 64, for {NAMES[what]}"
            continue
        parts: list[str] = []
        for users, verdict in turns:
            names = " or ".join(dict.fromkeys(called(each, question.nodes) for each in verdict.ahead))
            # Another routing of replicas is no other topology.
            if not parts or parts[-1].rpartition(" from ")[0] != names:
                parts.append(f"{names} from {users}")
        shown = parts if len(parts) <= 4 else [*parts[:2], "...", parts[-1]]
        yield f"users, for {NAMES[what]}: {', '.join(shown)}"


def _bounds(question: Question, outlooks: Sequence[Outlook], load: Load) -> Iterator[str]:
    flag = ENGINES[question.recipe.engine].REQUESTS
    for outlook in outlooks:
        room = outlook.room
        if room.let_in is not None and room.let_in < load.users and (room.fit is None or room.fit > room.let_in):
            fits = "" if room.fit is None else f"; the KV cache has room for {room.fit:,}"
            name = called(outlook.setup, question.nodes)
            yield f"{name}: the recipe's {flag} lets {room.let_in} in at once{fits}"


def clearly_behind(outlooks: Sequence[Outlook], topology: str, what: str, by: float) -> tuple[Outlook, Outlook] | None:
    """The best setup of a topology and the one ahead of it, where that is by more than so much; None: it is not."""
    able = [each for each in outlooks if not each.why_not]
    mine = by_figure([each for each in able if each.setup.topology == topology], what)
    best = by_figure(able, what)
    if mine is None or best is None or any(each.topology == topology for each in best.ahead):
        return None
    one, other = (next(each for each in able if each.setup == verdict.ahead[0]) for verdict in (mine, best))
    duel = by_figure([one, other], what)
    return (one, other) if duel and not duel.tie and duel.by > by else None
