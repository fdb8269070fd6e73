"""What a deploy does about compiled kernels: handed on before a stop, listed behind a start, and nothing on the way."""

from __future__ import annotations

import re
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from operations.node.kernels import kept
from operations.paths import ENGINE
from operations.plan.decide.kernels import Lacking
from operations.plan.plan import Plan
from operations.plan.services import kept_kernels
from operations.steps import kernels
from operations.wire.kernels import CHANGED
from tests.deploy.fake import NAMES, Outcome, deploy, look, planned

GB10 = "NVIDIA GB10 0x2e12, driver 580.95.05"
KEEP = "kernels.kept:keep"


def states(plan: Plan, *proven: bool | None) -> list[dict[str, Any]]:
    """Nodes as the plan wants them; `proven`: whether a start has served with kernels of each, None: it has none."""
    found = [look(plan, name) for name in NAMES]
    for state, name, each in zip(found, NAMES, proven, strict=True):
        [model] = plan.on(name)
        known = {"made": {"content": "c1", "processor": GB10}, "proven": each}
        mine = {} if each is None else {kept_kernels.place_of(model): known}
        state["kernels"] = {"gpu": GB10, "cpu": "", "kept": mine}
    return found


def asked(outcome: Outcome, program: str) -> list[tuple[str, int]]:
    """On which nodes a program was run, and where in the text."""
    lines = re.finditer(
        rf"^\[@fake/(spark-\d)\] >>> .*memfd_create.* {re.escape(program)} ", outcome.text, re.MULTILINE
    )
    return [(each[1], each.start()) for each in lines]


def test_engines_that_serve_are_listed_once_each_before_the_next_one_stops(tmp_path: Path) -> None:
    plan = planned(topology="replicas")
    nodes = states(plan, False, False)
    for state in nodes:
        state["services"]["units"][ENGINE]["spec"] = "older"
    # On the first one no list can be made: that ends no deploy.
    failing = {NAMES[0]: [KEEP]}
    outcome = deploy(tmp_path, nodes, "-y", "--data", "topology=replicas", programs={KEEP: []}, failing=failing)
    assert outcome.code == 0, outcome.text[-3000:]
    listed = asked(outcome, KEEP)
    stop = next(re.finditer(r"^\[@fake/spark-2\] >>> .*systemctl (?:stop|restart).*tandem-engine", outcome.text, re.M))
    assert listed[0][0] == "spark-1" and listed[0][1] < stop.start(), "the second one may begin with them"
    assert {name for name, _ in listed} == {"spark-1", "spark-2"}


def test_what_is_there_costs_no_question_and_what_is_not_is_taken_before_the_switch(tmp_path: Path) -> None:
    plan = planned(topology="replicas")
    outcome = deploy(tmp_path, states(plan, True, True), "-y", "--data", "topology=replicas")
    assert outcome.code == 0 and not outcome.commands, outcome.commands
    assert not asked(outcome, KEEP) and not asked(outcome, "look.look")
    dry = deploy(tmp_path, states(plan, True, None), "--dry", "--data", "topology=replicas")
    assert dry.code == 0 and "would change on: @fake/spark-2; engines that would start anew: none" in dry.text, (
        dry.text[-1000:]
    )


class Runs:
    """A run whose copy fails, or does not."""

    def __init__(self, error: str = "") -> None:
        self.copied: list[tuple[str, str, Any]] = []
        self.error = error
        self.copies = self
        self.plan = SimpleNamespace(of=lambda name: SimpleNamespace(node=SimpleNamespace(name=name)))

    def from_node(self, _plan: Any, source: Any, where: Any, what: str, **arguments: Any) -> None:
        self.copied.append((source.name, where.name, arguments))
        if self.error:
            raise RuntimeError(self.error)

    def node(self, name: str) -> Any:
        return Said(name)


class Said:
    """A node that keeps what is said of it."""

    lines: list[str] = []

    def __init__(self, name: str) -> None:
        self.name = name

    def log(self, line: str) -> None:
        self.lines.append(f"{self.name}: {line}")


@pytest.mark.parametrize("begins", [False, True])
def test_a_broken_copy_is_said_mended_where_it_is_and_ends_no_deploy(
    monkeypatch: pytest.MonkeyPatch, begins: bool
) -> None:
    [model] = planned(topology="replicas").on(NAMES[1])
    made: Any = {"content": "c1", "processor": GB10}
    wanted = Lacking("a/b", made, "spark-1", begins=begins)
    asks: list[tuple[str, Any]] = []

    def ask(where: Any, program: Any, *_: Any, **__: Any) -> Any:
        asks.append((where.name, program))
        return answers[program]

    answers: dict[Any, Any] = {kept.mend: ["flashinfer/0.7.0"], kept.begin_with: True}
    monkeypatch.setattr(kernels, "ask_or_none", ask)
    monkeypatch.setattr(Said, "lines", [])
    good = Runs()
    assert kernels._take(good, model, wanted, None, Said("spark-2"))  # type: ignore[arg-type]
    assert good.copied == [("spark-1", "spark-2", {"kernels": "a/b", "made": made})] and not asks
    changed = f"kernels from spark-1: flashinfer/0.7.0/x.so {CHANGED}"
    broken = Runs(changed)
    assert kernels._take(broken, model, wanted, None, Said("spark-2"))  # type: ignore[arg-type]
    assert asks == [("spark-1", kept.mend), *([("spark-2", kept.begin_with)] if begins else [])]
    assert Said.lines[1:] == [
        f"spark-2: {changed}: its engine compiles its own",
        "spark-1: a/b/flashinfer/0.7.0 has changed by itself: it is removed, and the next start compiles it anew",
    ]
    # Nor does it end where these programs can't be run; and only a changed file is looked for.
    asks.clear()
    answers.update(dict.fromkeys(answers))
    assert kernels._take(broken, model, wanted, None, Said("spark-2"))  # type: ignore[arg-type]
    away = Runs("kernels from spark-1: timed out")
    assert kernels._take(away, model, wanted, None, Said("spark-2"))  # type: ignore[arg-type]
    assert [program for _, program in asks].count(kept.mend) == 1


def test_a_node_whose_other_kernels_are_of_no_use_to_a_new_plan_deploys_all_the_same(tmp_path: Path) -> None:
    plan = planned(topology="cluster")
    nodes = states(plan, None, None)
    for state, name in zip(nodes, NAMES, strict=True):
        [model] = plan.on(name)
        another = str(Path(kept_kernels.place_of(model)).parent / ("0" * 12))
        state["kernels"]["kept"] = {another: {"made": {"content": "c1", "processor": GB10}, "proven": True}}
        state["services"]["units"][ENGINE]["spec"] = "older"
    outcome = deploy(tmp_path, nodes, "-y", "--data", "topology=cluster", programs={"kernels.kept:begin_with": False})
    assert outcome.code == 0, outcome.text[-3000:]
    assert {name for name, _ in asked(outcome, "kernels.kept:begin_with")} == {"spark-1", "spark-2"}
