"""What would change an advice: other numbers of users, the recipe's bounds, routing, and measuring it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from bench.advise.choose import TYPICAL, Choice, by_figure, crossings
from bench.advise.evidence import Setup
from bench.advise.load import Load
from bench.advise.options import Outlook, Question
from operations.plan.engines import ENGINES

_NAMES = {"whole": "the whole answer", "ttft": "the first token"}


def changes(question: Question, outlooks: Sequence[Outlook], choice: Choice, load: Load) -> Iterator[str]:
    """A line each."""
    yield from _users(question, choice, load)
    yield from _bounds(question, outlooks, load)
    yield from _routing(question, load)
    if choice.setup.topology == "cluster":
        yield from _executor(question)
    yield from _hybrid(question)
    kinds = {value.kind for outlook in outlooks for value in outlook.values.values()}
    if "estimate" in kinds:
        yield f"an estimate is off by {TYPICAL:.0%} as a rule, and by half at worst (docs/advise.md)"
    if kinds != {"own run"}:
        names = " ".join(dict.fromkeys(setup.topology for setup in question.setups()))
        command = f'make bench TOPOLOGIES="{names}" PROMPT={load.prompt} ANSWER={load.answer}'
        yield f"your own figures: {command}; then this reads them"


def _users(question: Question, choice: Choice, load: Load) -> Iterator[str]:
    for what in dict.fromkeys((load.best, "ttft")):
        named = _NAMES.get(what, what)
        turns = crossings(question, load, what)
        if len(turns) < 2:
            yield f"no number of users up to 64, for {named}"
            continue
        parts = [f"{' or '.join(map(str, verdict.ahead))} from {users}" for users, verdict in turns]
        yield f"users, for {named}: {'; '.join(parts)}"


def _bounds(question: Question, outlooks: Sequence[Outlook], load: Load) -> Iterator[str]:
    flag = ENGINES[question.recipe.engine].REQUESTS
    for outlook in outlooks:
        room = outlook.room
        if room.let_in is not None and room.let_in < load.users and (room.fit is None or room.fit > room.let_in):
            fits = "" if room.fit is None else f"; the KV cache has room for {room.fit:,}"
            yield f"{outlook.setup}: the recipe's {flag} lets {room.let_in} in at once{fits}"


def _routing(question: Question, load: Load) -> Iterator[str]:
    """What an even split would give, where that was not measured: two engines with half of the users each."""
    setups = question.setups()
    shuffled, solo = Setup("replicas", "simple-shuffle"), Setup("solo")
    if shuffled not in setups or Setup("replicas", "balanced") in setups or load.users < 2:
        return
    half = question.outlook(solo, load.at(max(load.users // question.nodes, 1)))
    now = question.outlook(shuffled, load)
    decode, was = half.of("decode"), now.of("decode")
    even = (decode or 0.0) * question.nodes
    if was and even > was and not half.waiting:
        others = [question.outlook(each, load) for each in setups if each.topology == "cluster"]
        best = max((value for each in others if (value := each.of("decode"))), default=0.0)
        against = f", the cluster {best:,.0f}" if best else ""
        yield (
            f"routing = balanced: replicas at most {even:,.0f} tok/s of decode ({question.nodes} x solo with "
            f"{half.load.users}), shuffled {was:,.0f}{against}; computed, not measured"
        )


def _executor(question: Question) -> Iterator[str]:
    found = [setup.how for setup in question.setups() if setup.topology == "cluster"]
    if len(found) < 2:
        yield "executor: mp needs no Ray in the image, and was 2 to 8% ahead of it with Gemma 4 26B ([D])"


def _hybrid(question: Question) -> Iterator[str]:
    if question.model and question.model.state_mib:
        yield (
            "how many fit is counted in bytes: at long contexts vLLM lays out hybrid models with less room "
            "(200K tokens of Nemotron-3-Super: 7.48 requests at once in its log [E], 31 by bytes)"
        )


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
