"""Answers over several questions: how many users, which recipe, whether more nodes are worth it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from bench.advise.asking import AdviceRequest
from bench.advise.choose import Choice, choose, error_between
from bench.advise.load import Load
from bench.advise.options import MOST, Outlook, Question
from bench.advise.setups import Setup
from bench.advise.tell import gives, is_own, target
from bench.advise.trust import errors, kind_of, sure
from bench.advise.words import called, command, folded, measuring, number, seconds, sparks, users
from operations.plan.config.refusal import Finding, Refusal

Line = str | tuple[Sequence[str], Sequence[Sequence[str]]]


def how_many(question: Question, load: Load, declared: str) -> Iterator[Line]:
    """Up to how many users stay within the target, in each setup. Raises Refusal where nothing is known."""
    known = _counts(question, load)
    if not known:
        problem = f"nothing is known of {question.recipe.name} at such lengths"
        raise Refusal(Finding("load", problem, f"measure it: {measuring(question, declared)}"))
    best = max(known, key=lambda setup: known[setup])
    if not known[best]:
        alone = question.outlook(best, load.at(1))
        yield folded(f"Nobody: {target(load.target)} is missed by one user alone ({gives(alone)}; {sure(alone)}).")
    else:
        named = called(best, question.nodes)
        more = " or more" if known[best] >= MOST else ""
        yield folded(f"Up to {users(known[best])}{more} with {named}:")
        yield f"  {command(question, best, declared, is_own(question, best))}"
        seen = question.outlook(best, load.at(known[best]))
        yield folded(f"They get: {gives(seen)}. {sure(seen).capitalize()}: {seen.words or 'no table, no run'}.")
    yield ""
    asked = f"{load.prompt:,} tokens in, {load.answer:,} out"
    yield folded(f"{question.recipe.name} on {sparks(question.nodes)}; {target(load.target)}; {asked}", "  ")
    yield ""
    rows, shown = [], []
    for setup, count in sorted(known.items(), key=lambda each: -each[1]):
        seen = question.outlook(setup, load.at(max(count, 1)))
        beyond = question.outlook(setup, load.at(count + 1))
        name = called(setup, question.nodes).removeprefix("the ")
        name += f", {setup.how}" if setup.topology == "replicas" else ""
        rows.append((name, users(count), seconds(beyond.first), number(beyond.of("user")), kind_of(seen)))
        shown.append(seen)
    yield from errors(shown)
    yield ("", "within it", "with one more: first token", "each tok/s", "how sure"), rows
    yield "All ask at the same moment, which is the worst that they can do."


def _counts(question: Question, load: Load) -> dict[Setup, int]:
    """Up to how many users each setup keeps within the target, of those of which something is known."""
    counts = {setup: question.most_in_target(setup, load) for setup in question.setups()}
    return {setup: count for setup, count in counts.items() if count is not None}


def lines(told: AdviceRequest) -> Iterator[Line]:
    """The answer for several recipes, or several numbers of nodes."""
    if told.load.asks_how_many:
        yield from _within(told)
    elif _is_of_recipes(told):
        yield from _recipes(told)
    else:
        yield from _nodes(told)


def _nothing(told: AdviceRequest) -> Refusal:
    """Its remedy is a bench of the declared recipe, on the most nodes where several numbers of them are compared."""
    declared = [each for each in told.questions if each.named == told.declared]
    remedy = f"measure it: {measuring((declared or told.questions)[-1], told.declared)}"
    return Refusal(Finding("load", "nothing is known at this load", remedy))


def _is_of_recipes(told: AdviceRequest) -> bool:
    """Whether recipes are compared, though all but one may be left out."""
    return bool(told.left_out) or len({question.recipe.name for question in told.questions}) > 1


def _within(told: AdviceRequest) -> Iterator[Line]:
    """Which recipe, or how many nodes, keep the most users within the target: each with its best setup."""
    load, several = told.load, _is_of_recipes(told)
    found = []
    for question in told.questions:
        if counts := _counts(question, load):
            best = max(counts, key=lambda setup: counts[setup])
            found.append((question, best, counts[best]))
    if not found:
        raise _nothing(told)
    # Fewer nodes come first where they keep as many.
    found.sort(key=lambda each: (-each[2], each[0].nodes))
    question, best, count = found[0]
    what = question.recipe.name if several else sparks(question.nodes)
    if count:
        more = " or more" if count >= MOST else ""
        yield folded(f"Up to {users(count)}{more} with {what}, {called(best, question.nodes)}:")
        yield f"  {command(question, best, told.declared, is_own(question, best))}"
    else:
        yield folded(f"Nobody: {target(load.target)} is missed by one user alone, with each of these.")
    yield ""
    asked = f"{target(load.target)}; {load.prompt:,} tokens in, {load.answer:,} out"
    yield folded(asked if several else f"{question.recipe.name}; {asked}", "  ")
    yield ""
    rows, shown = [], []
    for question, best, count in found:
        seen = question.outlook(best, load.at(max(count, 1)))
        beyond = question.outlook(best, load.at(count + 1))
        name = question.recipe.name if several else sparks(question.nodes)
        setup = called(best, question.nodes).removeprefix("the ")
        rows.append((name, setup, users(count), seconds(beyond.first), number(beyond.of("user")), kind_of(seen)))
        shown.append(seen)
    yield from errors(shown)
    yield ("", "best as", "within it", "one more: first token", "each tok/s", "how sure"), rows
    yield "All ask at the same moment. Speed alone: how good answers are is not judged here."
    known = {question.recipe.name for question, _, _ in found}
    yield from _left_out(told, known)


def _left_out(told: AdviceRequest, known: set[str]) -> Iterator[Line]:
    """Recipes of which no row is, and why."""
    yield from (folded(f"left out: {each}") for each in told.left_out)
    without = [question for question in told.questions if question.recipe.name not in known]
    unknown = {question.recipe.name: _decode(question) for question in without}
    yield from (folded(f"left out: {name}: {said}") for name, said in unknown.items() if said)
    if nothing := [name for name, said in unknown.items() if not said]:
        yield folded(f"left out, nothing is known at this load: {', '.join(nothing)}")


def _decode(question: Question) -> str:
    """Published decode speeds of each setup, in words; an empty text where there are none."""
    found = ((setup, question.evidence.decode_alone(setup)) for setup in question.setups())
    return "; ".join(f"{setup}: {said}" for setup, said in found if said)


def _best(question: Question, load: Load) -> tuple[Choice, Outlook] | None:
    outlooks = [question.outlook(setup, load) for setup in question.setups()]
    choice = choose(question, outlooks, load)
    return (choice, next(each for each in outlooks if each.setup == choice.setup)) if choice else None


def _recipes(told: AdviceRequest) -> Iterator[Line]:
    load = told.load
    found = [(question, *seen) for question in told.questions if (seen := _best(question, load))]
    # Who is within the target comes first, then who has the whole answer soonest.
    found.sort(key=lambda each: ((each[2].missed or 0.0) > 1, each[2].whole or 0.0))
    if not found:
        raise _nothing(told)
    question, choice, best = found[0]
    yield folded(f"The fastest is {question.recipe.name}, {called(choice.setup, question.nodes)}:")
    yield f"  {command(question, choice.setup, told.declared, is_own(question, choice.setup))}"
    yield folded(
        f"{users(load.users)}: {gives(best)}; {sure(best)}. Speed alone: how good answers are is not judged here."
    )
    yield ""
    rows = [
        (question.recipe.name, called(choice.setup, question.nodes).removeprefix("the "), seconds(best.first),
         number(best.of("user")), seconds(best.whole), kind_of(best))
        for question, choice, best in found
    ]  # fmt: skip
    yield from errors(best for _, _, best in found)
    yield ("recipe", "best as", "first token", "each tok/s", "whole", "how sure"), rows
    yield from _left_out(told, {question.recipe.name for question, _, _ in found})


def _nodes(told: AdviceRequest) -> Iterator[Line]:
    load = told.load
    found = [(question, *seen) for question in told.questions if (seen := _best(question, load))]
    if not found:
        raise _nothing(told)
    (few, _, before), (many, choice, after) = found[0], found[-1]
    assert before.whole and after.whole
    gain, error = before.whole / after.whole - 1, error_between(before, after)
    verdict = "No difference that one could be sure of" if gain < error else "Yes" if gain >= 0.5 else "A little"
    sooner = f"the whole answer after {seconds(after.whole)} in place of {seconds(before.whole)}"
    all_ = f"{number(after.together)} in place of {number(before.together)} tokens a second of all"
    yield folded(f"{verdict}: {sparks(many.nodes)} in place of {few.nodes} bring {sooner}, and {all_}.")
    yield f"  {command(many, choice.setup, told.declared, is_own(many, choice.setup))}"
    yield folded(f"How sure: {before.setup}: {sure(before)}; {after.setup}: {sure(after)} ({after.words}).")
    yield ""
    yield folded(f"{few.recipe.name}; {load}", "  ")
    yield ""
    rows = [
        (sparks(question.nodes), called(best.setup, question.nodes).removeprefix("the "), seconds(best.first),
         number(best.of("user")), seconds(best.whole), number(best.together), kind_of(best))
        for question, _, best in found
    ]  # fmt: skip
    yield from errors(best for _, _, best in found)
    yield ("", "best as", "first token", "each tok/s", "whole", "all tok/s", "how sure"), rows
