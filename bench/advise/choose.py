"""Who is ahead, and whether by enough to say so."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from bench.advise.load import Load
from bench.advise.options import Outlook, Question
from bench.advise.setups import Kind, Setup
from bench.noise import LEAST, compare

#: Median errors of what was not measured (docs/advise.md; a test computes them again): of the estimate on a model that
#: it was not fitted to, and of what is computed from other rows of the same model. What is nearer can't be told apart.
TYPICAL = 0.12
COMPUTED = 0.10
ERRORS: dict[Kind, float] = {"own run": LEAST, "published": LEAST, "computed": COMPUTED, "estimate": TYPICAL}
#: The worst that the same leaving out has found.
WORST = 0.77
#: The longest prompt that a table has of several users. Beyond it every error is another load's.
LONGEST = 1024
#: The prompts of one user beyond it, three figures in all, and the worst error of the estimate there.
ALONE, WORST_ALONE = 46_000, 1.51
#: Predictions for prompts of so many tokens on two H200: how far off as a rule and at worst (docs/gpu/README.md).
ELSEWHERE, ELSEWHERE_ERRORS = 4096, (0.13, 2.14)
#: Nodes of the largest cluster of which there is a table.
LARGEST = 4
#: What two sources may differ by that measured the same: another day, another release.
APART = 0.05
#: Where two are the same, the one that comes first here: one engine may fail, then one has more room for long requests.
IF_THE_SAME = ("replicas", "cluster", "solo")


@dataclass(frozen=True)
class Verdict:
    """`ahead`: the best, or all that can't be told apart from it, the preferred one first. `by`: over the next."""

    ahead: tuple[Setup, ...]
    by: float = 0.0

    @property
    def tie(self) -> bool:
        """Whether more than one is ahead."""
        return len(self.ahead) > 1


def by_figure(outlooks: Sequence[Outlook], what: str) -> Verdict | None:
    """Who is ahead in a figure or in the whole answer; None: nobody is known."""
    known = [each for each in outlooks if score(each, what) is not None]
    if not known:
        return None
    first, *others = sorted(known, key=lambda each: score(each, what) or 0.0, reverse=True)
    tied = [each for each in others if _same(first, each, what)]
    behind = [each for each in others if each not in tied]
    by = abs(_by(first, behind[0], what)) if behind else 0.0
    ahead = sorted((first, *tied), key=lambda each: IF_THE_SAME.index(each.setup.topology)) if tied else [first]
    return Verdict(tuple(each.setup for each in ahead), by)


def score(outlook: Outlook, what: str) -> float | None:
    """More is better."""
    value = outlook.of(what)
    if value is None:
        return None
    return 1 / max(value, 1e-9) if what in ("ttft", "whole") else value


def _by(one: Outlook, other: Outlook, what: str) -> float:
    mine, theirs = score(one, what), score(other, what)
    assert mine and theirs
    return mine / theirs - 1


def _same(one: Outlook, other: Outlook, what: str) -> bool:
    """Own repeats have their spread; published ones are means of many; what is computed has its error."""
    repeats = [each.repeats.get(what, ()) for each in (one, other)]
    if one.kind == other.kind == "own run" and all(repeats):
        found = compare(repeats[0], repeats[1])
        return found is not None and found.tie
    return abs(_by(one, other, what)) < error_between(one, other)


def error_between(one: Outlook, other: Outlook) -> float:
    """What a difference has to be larger than: both errors together, and of two sources against each other."""
    both = math.hypot(ERRORS[one.kind], ERRORS[other.kind])
    is_measured = {one.kind, other.kind} <= {"own run", "published"}
    apart = is_measured and one.words.split(",")[0] != other.words.split(",")[0]
    return max(both, APART) if apart else both


@dataclass(frozen=True)
class Choice:
    """`meets`: whether it is within the target; else `most` are the setup that is so with the most users, and these."""

    setup: Setup
    verdict: Verdict
    meets: bool
    most: tuple[Setup, int] | None = None


def choose(question: Question, outlooks: Sequence[Outlook], load: Load) -> Choice | None:
    """The best setup of those within the target; where none is, the one that misses it by the least."""
    able = [each for each in outlooks if not each.why_not]
    within = [each for each in able if each.in_target]
    verdict = by_figure(within or able, load.best)
    if verdict is None:
        return None
    if within or load.target is None:
        return Choice(verdict.ahead[0], verdict, True)
    known = [each for each in able if each.missed is not None]
    nearest = min(known, key=lambda each: each.missed or 0.0).setup if known else verdict.ahead[0]
    counts = {each.setup: question.most_in_target(each.setup, load) or 0 for each in able}
    most = max(counts, key=lambda setup: (counts[setup], setup == nearest))
    return Choice(nearest, verdict, False, (most, counts[most]))


def crossings(question: Question, load: Load, what: str, most: int = 64) -> list[tuple[int, Verdict]]:
    """From which number of users on another one is ahead: each with who is, the first from one user on."""
    found: list[tuple[int, Verdict]] = []
    for users in range(1, most + 1):
        outlooks = [question.outlook(setup, load.at(users)) for setup in question.setups()]
        verdict = by_figure([each for each in outlooks if not each.why_not], what)
        if verdict and (not found or set(found[-1][1].ahead) != set(verdict.ahead)):
            found.append((users, verdict))
    return found
