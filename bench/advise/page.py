"""What the page at /tandem/ is told of benches and advice (docs/page.md): made here, where the runs are, as JSON.

`models`: of each model `model` (as clients call it), `spec` (its engine's, of the plan that it was made for), `bench`
(the last run of its recipe, or null) and `advice`: for several lengths of prompts and answers what is better than what
serves, for each number of users.
"""

from __future__ import annotations

import json
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import fmean
from typing import Any

from pydantic import ValidationError

from bench.advise.asking import question
from bench.advise.choose import by_figure
from bench.advise.evidence import Measured
from bench.advise.load import Load
from bench.advise.measured import runs_of
from bench.advise.options import Outlook, Question
from bench.advise.setups import KINDS, Setup
from bench.advise.trust import sure
from bench.resuming import ENDED, RUNS
from operations.plan.config.refusal import Refusal
from operations.plan.plan import Plan
from operations.plan.recipes.recipe import Recipe
from operations.wire.page import AdviceFile, AdviceTable, BenchPart, BenchRow, Better, HandedModel

#: It changes when an older page would read it wrongly (files/page/handed.py).
FORMAT = 1
#: Numbers of users, from one on.
MOST = 64
#: Lengths beside those of the last run: the page takes those that are nearest to what is asked of the engine.
PROMPTS, ANSWERS = (256, 1024, 8192), (64, 256, 1024)
#: As `tandem advise` has it where nothing is said.
PLAIN = (Load(1).prompt, Load(1).answer)


@dataclass(frozen=True)
class Serving:
    """A model as it is served. `nodes`: how many it could have; 0: others compute there too, and nothing is advised."""

    recipe: Recipe
    topology: str
    executor: str
    routing: str
    stages: int
    nodes: int
    spec: str

    @property
    def setup(self) -> Setup:
        """As evidence has it."""
        stages = f", pipeline_parallel = {self.stages}" if self.stages > 1 else ""
        how = {"cluster": f"{self.executor}{stages}", "replicas": self.routing}
        on = 0 if self.topology == "solo" else self.nodes
        return Setup(self.topology, how.get(self.topology, ""), on)


def of_plan(plan: Plan, count: int) -> list[Serving]:
    """The models of a plan; `count`: nodes of the inventory."""
    found = []
    for each in plan.models:
        knobs, spec = each.knobs, plan.of(each.leader.name).container(each.unit).spec
        is_alone = not any(each.beside.get(node.name) for node in each.nodes)
        nodes = (len(each.nodes) if is_alone else 0) if each.name else count
        found.append(Serving(each.recipe, knobs.topology, knobs.executor, knobs.routing, knobs.stages, nodes, spec))
    return found


def of_record(served: Mapping[str, Any], spec: str, count: int) -> list[Serving]:
    """The model of a plan as a node keeps it (operations/plan/history.py). Raises ValueError for one that can't be
    read.
    """
    try:
        knobs, recipe = served["knobs"], Recipe.model_validate(served["recipe"])
    except ValidationError:
        raise ValueError("the plan that serves is an older Tandem's, which this one can't read") from None
    stages = int(knobs.get("pipeline_parallel", 1)) if knobs["topology"] == "cluster" else 1
    return [Serving(recipe, knobs["topology"], knobs["executor"], knobs["routing"], stages, count, spec)]


def told(models: Sequence[Serving], runs: Path = RUNS) -> str:
    """All of it, as text."""
    parts = [_part(each, runs) for each in models]
    said: AdviceFile = {"format": FORMAT, "when": round(time.time()), "models": parts}
    return json.dumps(said, allow_nan=False) + "\n"


def _part(serving: Serving, runs: Path) -> HandedModel:
    bench = _last(serving.recipe, runs)
    # Those of the bench or the plain ones are the first, and may be left out: each table says which it is of.
    first = {(bench["prompt"], bench["answer"]): "bench"} if bench else {PLAIN: "plain"}
    lengths = first | {each: "grid" for each in _grid() if each not in first}
    advice = [
        found
        for (prompt, answer), place in lengths.items()
        if serving.nodes and (found := _advice(serving, Load(1, prompt, answer), place, runs))
    ]
    return {"model": serving.recipe.served_name, "spec": serving.spec, "bench": bench, "advice": advice}


def _grid() -> list[tuple[int, int]]:
    return [(prompt, answer) for prompt in PROMPTS for answer in ANSWERS]


def _last(recipe: Recipe, runs: Path) -> BenchPart | None:
    """The newest run of a recipe that is over and has a figure; one that can't be read is none."""
    whole = [
        (run, measured[0])
        for run, measured in runs_of(recipe, runs)
        if measured and run.model == recipe.model.repo and ENDED in run.environment
    ]
    if not whole:
        return None
    run, measured = max(whole, key=lambda each: each[0].began)
    assert measured.prompt is not None and measured.answer is not None, "an own run knows its lengths"
    return {
        "folder": measured.name,
        "began": round(run.began),
        "profile": run.profile,
        "recipe": run.recipe,
        "prompt": measured.prompt,
        "answer": measured.answer,
        "rows": list(_rows(measured)),
    }


def _rows(measured: Measured) -> Iterator[BenchRow]:
    for setup in sorted({setup for setup, _ in measured.rows}):
        decode, first = (measured.rows.get((setup, figure), {}) for figure in ("decode", "ttft"))
        for users in sorted({*decode, *first}):
            row: BenchRow = {"setup": str(setup), "users": users}
            if users in decode:
                row["decode"] = fmean(decode[users])
            if users in first:
                row["first"] = fmean(first[users])
            yield row


def _advice(serving: Serving, load: Load, place: str, runs: Path) -> AdviceTable | None:
    """For each number of users; None: nothing is known for such prompts and answers."""
    try:
        asked = question(serving.recipe, serving.nodes, load, runs)
    except Refusal:
        return None
    users = [_better(asked, serving, load.at(count)) for count in range(1, MOST + 1)]
    if not any(users):
        return None
    return {"prompt": load.prompt, "answer": load.answer, "lengths_from": place, "users": users}


def _better(asked: Question, serving: Serving, load: Load) -> Better | None:
    """What would give more tokens of answers a second than what serves, and where that is from; None: it is not known
    of both. `better` is empty where it is none.
    """
    setups = dict.fromkeys((*asked.setups(), *([serving.setup] if _is_measured(asked, serving.setup) else [])))
    known = [each for each in (asked.outlook(setup, load) for setup in setups) if _is_known(each)]
    mine = _mine(known, serving)
    others = [each for each in known if mine and each.setup != mine.setup and _is_other(each.setup, serving, mine)]
    if mine is None or not others:
        return None
    verdict = by_figure([mine, *others], "decode")
    ahead = next((each for each in others if verdict and each.setup == verdict.ahead[0]), others[0])
    duel = by_figure([mine, ahead], "decode")
    if verdict is None or duel is None or mine.setup in verdict.ahead or duel.tie:
        best = max(others, key=lambda each: each.of("decode") or 0.0)
        return {"better": "", **_sources(mine, best)}
    here, there = mine.of("decode") or 0.0, ahead.of("decode") or 0.0
    found: Better = {"better": str(ahead.setup), "by": there / here - 1, "here": here, "there": there}
    if first_here := mine.of("ttft"):
        found["first_here"] = first_here
    if first_there := ahead.of("ttft"):
        found["first_there"] = first_there
    return {**found, **_sources(mine, ahead)}


def _is_known(outlook: Outlook) -> bool:
    return not outlook.why_not and bool(outlook.of("decode"))


def _is_measured(asked: Question, setup: Setup) -> bool:
    """By an own run, though another one may be nearer, which alone is asked for its setups."""
    return any(each.kind == "own run" and each.has(setup) for each in asked.evidence.sources)


def _mine(known: Sequence[Outlook], serving: Serving) -> Outlook | None:
    """The outlook of what serves: the same setup, or else the best of its topology. Pipeline stages are only known from
    own runs."""
    for each in known:
        if each.setup == serving.setup:
            return each
    alike = [each for each in known if each.setup.topology == serving.topology and serving.stages == 1]
    verdict = by_figure(alike, "decode")
    return next((each for each in alike if verdict and each.setup == verdict.ahead[0]), None)


def _is_other(setup: Setup, serving: Serving, mine: Outlook) -> bool:
    """Whether it can be set against what serves: a way of the same topology only where both were measured."""
    return setup.topology != serving.topology or mine.setup == serving.setup


def _sources(*outlooks: Outlook) -> Better:
    """`kind`: how sure the worse of both is, and where it is from; `source`: each one's own words."""
    worst = max(outlooks, key=lambda each: KINDS.index(each.kind))
    name = worst.words.split(",")[0]
    words = {str(each.setup): f"{each.kind}, {each.words}" if each.words else each.kind for each in outlooks}
    return {
        "kind": f"{sure(worst)}, {name}" if name else sure(worst),
        "source": "; ".join(f"{setup}: {each}" for setup, each in words.items()),
    }
