"""The answer in words: what to run, what it gives, how sure that is; then why, then what would change it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from bench import published
from bench.advise.choose import Choice, by_figure, error_between
from bench.advise.kv import context
from bench.advise.load import BEST, KINDS, Load
from bench.advise.measured import SOLO, wholes
from bench.advise.options import Outlook, Question
from bench.advise.setups import Setup
from bench.advise.trust import is_known, is_measured, kind_of, off
from bench.advise.words import by, called, command, folded, number, seconds, sparks, users
from bench.slo import Slo

#: What is ahead by less than this in others' figures may be behind in the owner's.
LITTLE = 0.05
COLUMNS = ("", "first token", "each tok/s", "whole", "all tok/s", "at once", "how sure")
NAMES = {
    "whole": "the whole answer",
    "ttft": "the first token",
    "decode": "tokens a second once answers have begun",
    "prefill": "tokens of prompts a second",
}


def answer(question: Question, outlooks: Sequence[Outlook], choice: Choice, load: Load, declared: str) -> Iterator[str]:
    """The first lines: a command, its figures beside the next one's, and how sure they are."""
    chosen = _of(outlooks, choice.setup)
    named = called(choice.setup, question.nodes)
    yield f"Run {named}: {command(question, choice.setup, declared, is_own(question, choice.setup))}"
    yield folded(
        f"{users(load.users)}: {gives(chosen)}. {_others(question, ranked(outlooks, choice), chosen)}".rstrip()
    )
    if not choice.meets and choice.most:
        setup, most = choice.most
        within = f"{called(setup, question.nodes)} keeps up to {users(most)} within it" if most else "nor one alone"
        yield folded(f"It misses the target ({target(load.target)}), as all do: {within}.")
    elif load.target:
        yield folded(f"That is within the target ({target(load.target)}).")
    yield folded(_trust(chosen, outlooks, _had_by_others(question, chosen, load)))


def gives(outlook: Outlook) -> str:
    """A setup's figures in a clause."""
    return (
        f"first token {seconds(outlook.first)}, {number(outlook.of('user'))} tokens a second each, "
        f"whole answer {seconds(outlook.whole)}"
    )


def ranked(outlooks: Sequence[Outlook], choice: Choice) -> list[Outlook]:
    """What was chosen, then who has the whole answer soonest."""
    return sorted(outlooks, key=lambda each: (each.setup != choice.setup, each.whole is None, each.whole or 0.0))


def _others(question: Question, outlooks: Sequence[Outlook], chosen: Outlook) -> str:
    """The best of each other topology."""
    parts: dict[str, str] = {}
    for outlook in outlooks:
        name = called(outlook.setup, question.nodes).removeprefix("the ").capitalize()
        if outlook.setup.topology == chosen.setup.topology or outlook.setup.topology in parts:
            continue
        if outlook.why_not:
            parts[outlook.setup.topology] = f"{name}: {outlook.why_not}."
        elif outlook.point:
            figures = f"{seconds(outlook.first)}, {number(outlook.of('user'))}, {seconds(outlook.whole)}"
            parts[outlook.setup.topology] = f"{name}: {figures}."
    return " ".join(parts.values())


def _trust(chosen: Outlook, outlooks: Sequence[Outlook], had: str) -> str:
    if chosen.kind == "own run":
        return f"{kind_of(chosen).capitalize()} ({chosen.words})."
    if chosen.kind == "published":
        return f"{kind_of(chosen).capitalize()}, {chosen.words}; on your own Sparks: not yet."
    if chosen.kind == "computed":
        return f"Computed {chosen.words}; {off(chosen)}. {had or _measured_so(chosen, outlooks)}"
    nobody = had or "Nobody has measured it."
    return f"Estimated from what the model reads and computes; {off(chosen)}. {nobody}"


def _had_by_others(question: Question, chosen: Outlook, load: Load) -> str:
    """The whole answer that others had of just this recipe, in solo and at such lengths; empty: nobody had it."""
    for each in wholes(question.recipe) if chosen.setup == SOLO else []:
        if each.covers(load, SOLO):
            took = each.means(SOLO)["whole"][1]
            at = f"at {each.prompt:,} tokens in, {each.answer} out"
            return f"Others had the whole answer after {took:g} s {at} ({each.name})."
    return ""


def _measured_so(chosen: Outlook, outlooks: Sequence[Outlook]) -> str:
    """What was measured of the same topology in another way."""
    for each in outlooks:
        if each.setup.topology == chosen.setup.topology and is_measured(each) and each.point:
            figures = f"{seconds(each.first)}, {number(each.of('user'))}, {seconds(each.whole)}"
            return f"With {each.setup.how}: {figures} ({kind_of(each)}: {each.words})."
    return "Nobody has measured this; on your own Sparks: not yet."


def title(question: Question, load: Load) -> str:
    """What was asked."""
    wanted = f", {target(load.target)}" if load.target else ""
    taken = " (write prompt=, answer=, cached= where yours differ)" if load.called in KINDS else ""
    best = f"; what counts: {BEST[load.best]}" if load.best != "whole" else ""
    return f"{question.recipe.name} on {sparks(question.nodes)}; {load}{taken}{wanted}{best}"


def who(load: Load) -> Iterator[str]:
    """A line that says who counts as a user, as not all of a team ask at once; no line for one user."""
    if load.users > 1:
        whose = "those whose agents ask" if load.called == "coding agent" else "those who ask"
        yield f"{users(load.users)} at once: of a team, {whose} at the same moment"


def row(question: Question, outlook: Outlook, load: Load) -> tuple[str, ...]:
    """One setup's cells."""
    name = called(outlook.setup, question.nodes).removeprefix("the ")
    ways = [each for each in question.setups() if called(each, question.nodes) == called(outlook.setup, question.nodes)]
    name += f", {outlook.setup.how}" if len(ways) > 1 else ""
    if outlook.point is None:
        return (name, "-", "-", "-", "-", "", outlook.why_not or "nothing is known")
    return (
        name,
        seconds(outlook.first),
        number(outlook.of("user")),
        seconds(outlook.whole),
        number(outlook.together),
        at_once(outlook),
        kind_of(outlook),
    )


def at_once(outlook: Outlook) -> str:
    """How many are served at once."""
    return f"{outlook.at_once} of {outlook.load.users}" if outlook.waiting else "all"


def why(question: Question, outlooks: Sequence[Outlook], choice: Choice, load: Load) -> Iterator[str]:
    """A line each."""
    verdict = choice.verdict
    chosen = _of(outlooks, choice.setup)
    if verdict.tie:
        names = dict.fromkeys(called(each, question.nodes) for each in verdict.ahead if each != choice.setup)
        named = called(choice.setup, question.nodes)
        others = " and ".join(name for name in names if name != named) or f"other {named}"
        near = f"{max(error_between(chosen, _of(outlooks, each)) for each in verdict.ahead):.0%}"
        are_known = all(is_known(_of(outlooks, each)) for each in verdict.ahead)
        good = f"figures are good to {near}" if are_known else f"nearer than {near}, where nobody knows the error"
        reason = (
            "one engine may fail" if choice.setup.topology == "replicas" else "there is more room for long requests"
        )
        yield (f"{NAMES[load.best]}: {others} and {named} can't be told apart ({good}); {named}, because {reason}")
    elif choice.setup == verdict.ahead[0]:
        little = ": too little to trust without runs of your own" if verdict.by < LITTLE else ""
        alone = "nothing else is known" if len(outlooks) > 1 else f"on {sparks(question.nodes)} it runs in no other way"
        yield f"{NAMES[load.best]}: ahead of the next {by(verdict.by)}{little}" if verdict.by else alone
    for figure in ("ttft", "decode"):
        ahead = by_figure([each for each in outlooks if not each.why_not], figure)
        if ahead and figure != load.best and len(outlooks) > 1:
            leaders = " and ".join(dict.fromkeys(called(each, question.nodes) for each in ahead.ahead))
            yield f"{NAMES[figure]}: {leaders}" + (
                " (no difference)" if ahead.tie else f", {by(ahead.by)}" if ahead.by else ""
            )
    if chosen.waiting:
        yield (
            f"{users(chosen.waiting)} of {load.users} wait {seconds(chosen.waited)} on average for their turn: "
            f"{chosen.at_once} are served at once ({chosen.room.words})"
        )
    if longest := context(question.recipe, question.model):
        yield f"a request may have {longest:,} tokens, question and answer together"
    yield from (f"a row that can't be: {each}" for each in question.evidence.doubts)


def sources(outlooks: Sequence[Outlook]) -> Iterator[str]:
    """Where each setup's figures are from, and the titles of what they cite."""
    for outlook in outlooks:
        if outlook.point:
            yield (
                f"{outlook.setup}: {outlook.kind}, {outlook.words}"
                if outlook.words
                else f"{outlook.setup}: {outlook.kind}"
            )
    words = " ".join(each.words for each in outlooks)
    for article in published.articles():
        if f"[{article.letter}]" in words:
            origin = ", ".join(filter(None, (article.publisher, article.date, article.url)))
            yield f"[{article.letter}] {article.title} ({origin})"


def is_own(question: Question, setup: Setup) -> bool:
    """Whether it was measured by the owner."""
    return any(each.kind == "own run" and each.has(setup) for each in question.evidence.sources)


def _of(outlooks: Sequence[Outlook], setup: Setup) -> Outlook:
    return next(each for each in outlooks if each.setup == setup)


def target(wanted: Slo | None) -> str:
    """As the owner would say it."""
    if wanted is None:
        return ""
    parts = []
    if wanted.ttft_s:
        parts.append(f"first token within {seconds(wanted.ttft_s)}")
    if wanted.tpot_s:
        parts.append(f"{number(1 / wanted.tpot_s)} tokens a second each")
    if wanted.e2e_s:
        parts.append(f"whole answer within {seconds(wanted.e2e_s)}")
    return ", ".join(parts)
