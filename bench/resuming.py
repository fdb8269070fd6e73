"""Which folder a run goes into: a new one, or that of a run that was broken off."""

from __future__ import annotations

import os
import time
from pathlib import Path

from bench import folder
from bench.process import ROOT
from bench.records import Folder, Run
from bench.request import BenchRequest
from operations.plan.config.refusal import Finding, Refusal

#: BENCH_RUNS is where tests make them.
RUNS = Path(os.environ.get("BENCH_RUNS") or ROOT / "bench-runs")
#: Names in a run's environment: what was asked for, how often it has begun, which setups are whole, when it was over.
ASKED, ATTEMPTS, WHOLE, ENDED = "asked", "attempts", "whole", "ended"


def find(asked: BenchRequest) -> Folder:
    """RUN, or the newest of the same parameters that is not over, or a new one. Raises Refusal for a RUN that is none,
    is over, or is one of other parameters.
    """
    if asked.run:
        found = Folder(asked.run)
        run = folder.read(asked.run)[0]
        if ENDED in run.environment:
            raise _no(found, f"was over at {run.environment[ENDED]}", "leave --run out for another one")
        if run.environment.get(ASKED) != asked.identity:
            raise _no(found, "is a run of other parameters", "give those that it was begun with, or leave --run out")
        if asked.seed not in (None, run.seed):
            raise _no(found, f"has the seed {run.seed}", "leave --seed out, or --run")
        return found
    for path in sorted(RUNS.glob("*/run.json"), reverse=True):
        begun = _readable(path.parent)
        if begun and ENDED not in begun.environment and _is_the_same(begun, asked):
            return Folder(path.parent)
    return _new(asked)


def attempts(run: Run) -> int:
    """How often this run was started: 1, and one more for each time that it was resumed."""
    return int(run.environment.get(ATTEMPTS, "1"))


def whole(run: Run) -> list[str]:
    """Setups of which everything is measured."""
    return run.environment.get(WHOLE, "").split()


def marked(run: Run, **marks: str) -> Run:
    """The same with other marks in its environment."""
    return run.model_copy(update={"environment": {**run.environment, **marks}})


def _is_the_same(run: Run, asked: BenchRequest) -> bool:
    return run.environment.get(ASKED) == asked.identity and asked.seed in (None, run.seed)


def _readable(path: Path) -> Run | None:
    """A run that was cut is not gone on with, unless it is named."""
    try:
        return folder.read(path)[0]
    except Refusal:
        return None


def _new(asked: BenchRequest) -> Folder:
    name = f"{time.strftime('%Y-%m-%d-%H%M%S')}-{asked.profile.name}"
    return Folder(RUNS / name)


def _no(found: Folder, problem: str, remedy: str) -> Refusal:
    return Refusal(Finding(str(found.path), problem, remedy))
