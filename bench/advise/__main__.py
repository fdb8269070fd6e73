"""`tandem advise "8 users chat ttft=2s"`: docs/advise.md."""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Iterable
from pathlib import Path

from bench.advise import several
from bench.advise.asking import AdviceRequest, asked
from bench.advise.changes import changes, own_figures
from bench.advise.choose import choose
from bench.advise.options import Question
from bench.advise.tell import COLUMNS, answer, ranked, row, sources, title, who, why
from bench.advise.trust import errors
from bench.advise.words import folded, measuring, table
from bench.resuming import RUNS
from operations.plan.config.refusal import Finding, Refusal


def main(runs: Path = RUNS) -> int:
    """0: told. 1: nothing is known. 2: a word was not understood. Each fault is a line. `runs`: where own ones lie."""
    code = 2
    try:
        told = asked(os.environ, runs)
        code, load = 1, told.load
        if len(told.questions) > 1 or told.left_out:
            _print(several.lines(told))
        elif load.asks_how_many:
            _print(several.how_many(told.questions[0], load, told.declared))
        else:
            _one(told, told.questions[0])
        if not os.environ.get("RECIPE"):
            print(f"This is for {told.declared} alone. All recipes: --recipe any")
    except Refusal as refusal:
        for finding in refusal.findings:
            print(f"advise: {finding.where}: {finding.problem}; {finding.remedy}", file=sys.stderr)
        return code
    return 0


def _one(told: AdviceRequest, question: Question) -> None:
    load = told.load
    outlooks = [question.outlook(setup, load) for setup in question.setups()]
    choice = choose(question, outlooks, load)
    if choice is None:
        reasons = "; ".join(f"{each.setup}: {each.why_not or 'nothing is known'}" for each in outlooks)
        fewer = load.users > 1 and any(question.outlook(each, load.at(1)).point for each in question.setups())
        remedy = f"{'ask for fewer users, or ' * fewer}measure it: {measuring(question, told.declared)}"
        raise Refusal(Finding("load", f"nothing can be said of it: {reasons}", remedy))
    _print(answer(question, outlooks, choice, load, told.declared))
    _print(["", folded(title(question, load), "  "), *(folded(line, "  ") for line in who(load)), ""])
    _print(errors(outlooks))
    _print([(COLUMNS, [row(question, each, load) for each in ranked(outlooks, choice)])])
    _print(["", "why", *(folded(line, "   ") for line in why(question, outlooks, choice, load))])
    # Two ways to route replicas may be changed by the same.
    other = dict.fromkeys(changes(question, outlooks, load))
    _print(["what would change it", *(folded(line, "   ") for line in other)])
    _print(own_figures(question, outlooks, load, told.declared))
    if os.environ.get("DETAIL"):
        _print(["where it is from", *(folded(line, "   ") for line in sources(outlooks))])
    else:
        _print(["--detail says where each figure is from"])


def _print(lines: Iterable[several.Line]) -> None:
    for line in lines:
        print(line if isinstance(line, str) else "\n".join(table(*line)))


if __name__ == "__main__":
    # Who has read enough (`| head`) ends it, as it ends any program.
    signal.signal(signal.SIGPIPE, signal.SIG_DFL)
    sys.exit(main())
