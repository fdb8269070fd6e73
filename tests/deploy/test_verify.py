"""How an engine is waited for and judged: nodes that answer from a script, and a clock that waits only in name."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import pytest

from operations.plan.engines import starts
from operations.plan.recipes.recipe import Flag, Forbidden, Proof
from operations.runner import readiness, rollback, waiting, watching
from operations.runner.remote import called, named
from operations.runner.run import Run
from tests.plan.samples import plan

FAILED = {"state": {"ActiveState": "failed"}, "log": [], "told": ""}
OK = {"ok": True, "seconds": 0.1}
BUSY = {"problem": "timed out", "judged": False}


class ScriptedNodes:
    """Nodes whose programs answer from lists, the last answer again and again; each question takes a second."""

    def __init__(self) -> None:
        self.now = 0.0
        self.asked: list[str] = []
        self.ran: list[str] = []
        self.said: list[str] = []
        self.answers: dict[str, list[dict[str, Any]]] = {
            "engine.probe": [OK],
            "engine.answer_quality": [{"problem": "", "judged": True}],
            "unit.brief": [{"state": {"ActiveState": "active", "SubState": "running"}, "log": [], "told": ""}],
            "unit.journal": [{"seen": {}, "invocation": "i", "cursor": "c"}],
        }

    def ask(self, host: Any, asked: Callable[..., Any], *given: Any, **more: Any) -> dict[str, Any]:
        self.now += 1
        program, arguments = called(asked), named(asked, given, more)
        self.asked.append(program)
        late = self.answers.get(f"{host.name} {program} of this wait") if "since_s" in arguments else None
        script = late or self.answers.get(f"{host.name} {program}") or self.answers[program]
        return script.pop(0) if len(script) > 1 else script[0]

    def host(self, name: str) -> Any:
        def run(command: str, **_arguments: Any) -> None:
            self.ran.append(f"{name}: {command}")

        return SimpleNamespace(name=name, run_shell_command=run, log=self.said.append)


@pytest.fixture
def nodes(monkeypatch: pytest.MonkeyPatch) -> ScriptedNodes:
    made = ScriptedNodes()

    def sleep(seconds: float) -> None:
        made.now += seconds

    for module in (readiness, watching):
        monkeypatch.setattr(module, "ask", made.ask)
    monkeypatch.setattr(readiness, "gevent", SimpleNamespace(sleep=sleep))
    for module in (readiness, waiting):
        monkeypatch.setattr(module, "time", SimpleNamespace(monotonic=lambda: made.now))
    monkeypatch.setattr(watching, "state", SimpleNamespace(inventory=SimpleNamespace(get_host=made.host)))
    monkeypatch.setattr(rollback, "has_served", lambda _plan, _model, _where: True)
    return made


def made_run(**changes: Any) -> Run:
    """A run with a plan whose only model has a proof."""
    state: Any = SimpleNamespace()
    run, made = Run(state), plan(**changes)
    proof = Proof(expect=("joined",), forbid=(Forbidden(pattern="fallback", meaning="another kernel"),))
    (model,) = made.models
    recipe = model.recipe.model_copy(update={"proof": proof, "load_minutes": 20})
    run.plan = replace(made, models=(replace(model, recipe=recipe),))
    return run


def down(problem: str = "Connection refused", **state: str) -> dict[str, Any]:
    """A probe without a token."""
    return {"ok": False, "problem": problem, "log": [], "state": {"ActiveState": "active", "NRestarts": "0", **state}}


def started(run: Run) -> Run:
    run.started.add(run.plan.models[0], "spark-1")
    return run


def awaited(nodes: ScriptedNodes, run: Run) -> str:
    """What a wait for the engine of a run's only model says."""
    return readiness.await_engine(run, run.plan.models[0], nodes.host("spark-1"))


def test_an_engine_that_has_served_and_is_busy_is_waited_for_and_not_judged(nodes: ScriptedNodes) -> None:
    nodes.answers["engine.probe"] = [*[down("timed out")] * 3, OK]
    nodes.answers["unit.journal"] = [{"seen": {"fallback": "kernel fallback"}, "invocation": "i", "cursor": "c"}]
    nodes.answers["engine.answer_quality"] = [BUSY]
    assert awaited(nodes, made_run(topology="solo")) == ""
    assert nodes.ran == [] and set(nodes.asked) == {"engine.probe"}


@pytest.mark.parametrize("is_ours", [True, False], ids=["started by this run", "never served"])
def test_any_other_is_judged_once_although_it_answers_at_once(
    nodes: ScriptedNodes, monkeypatch: pytest.MonkeyPatch, is_ours: bool
) -> None:
    monkeypatch.setattr(rollback, "has_served", lambda _plan, _model, _where: is_ours)
    run = made_run(topology="solo")
    if is_ours:
        started(run)
    nodes.answers["unit.journal"] = [{"seen": {"joined": "joined"}, "invocation": "i", "cursor": "c"}]
    assert awaited(nodes, run) == ""
    assert "engine.answer_quality" in nodes.asked and run.started.is_proven(run.plan.models[0], "spark-1")
    nodes.asked.clear()
    assert awaited(nodes, run) == ""
    assert nodes.asked == ["engine.probe"]


def test_a_rank_that_was_started_makes_the_whole_cluster_prove_itself(nodes: ScriptedNodes) -> None:
    run = made_run(topology="cluster")
    run.started.add(run.plan.models[0], "spark-2")
    problem = awaited(nodes, run)
    assert "its log never said: joined. The engine is stopped" in problem
    assert [each.split()[0] for each in nodes.ran] == ["spark-1:", "spark-2:"]


def test_words_that_are_late_are_asked_for_again_and_stop_nothing(nodes: ScriptedNodes) -> None:
    nodes.answers["unit.journal"] = [{"seen": {"joined": "joined"}, "invocation": "i", "cursor": "c"}]
    nodes.answers["engine.answer_quality"] = [BUSY, BUSY, {"problem": "", "judged": True}]
    assert awaited(nodes, started(made_run(topology="solo"))) == ""
    nodes.answers["engine.answer_quality"] = [BUSY]
    began = nodes.now
    problem = awaited(nodes, started(made_run(topology="solo")))
    assert "gives tokens, and no sentence in 300 s: timed out" in problem
    assert nodes.ran == [] and 300 < nodes.now - began < 310
    nodes.answers["engine.answer_quality"] = [{"problem": "it says nothing but `!`", "judged": True}]
    assert "The engine is stopped" in awaited(nodes, started(made_run(topology="solo")))
    assert nodes.ran


@pytest.mark.parametrize(
    ("told", "said"),
    [
        ({"alike": ["po"], "problem": ""}, "the adapter po answers byte for byte as the model does"),
        ({"alike": [], "problem": "timed out"}, "could not be asked: timed out"),
        ({"alike": [], "problem": ""}, ""),
    ],
)
def test_an_adapter_that_changes_nothing_is_a_remark_and_no_failure(
    nodes: ScriptedNodes, caplog: pytest.LogCaptureFixture, told: dict[str, Any], said: str
) -> None:
    nodes.answers["unit.journal"] = [{"seen": {"joined": "joined"}, "invocation": "i", "cursor": "c"}]
    nodes.answers["engine.adapters"] = [told]
    run = made_run(topology="solo")
    (model,) = run.plan.models
    modules = Flag(name="lora-modules", words=("--lora-modules", "po=own/po"))
    recipe = model.recipe.model_copy(update={"flags": (*model.recipe.flags, modules)})
    run.plan = replace(run.plan, models=(replace(model, recipe=recipe),))
    assert awaited(nodes, started(run)) == "" and nodes.ran == []
    assert "engine.adapters" in nodes.asked
    assert (said in caplog.text) if said else not caplog.text


def test_a_model_without_adapters_is_not_compared(nodes: ScriptedNodes) -> None:
    nodes.answers["unit.journal"] = [{"seen": {"joined": "joined"}, "invocation": "i", "cursor": "c"}]
    assert awaited(nodes, started(made_run(topology="solo"))) == ""
    assert "engine.adapters" not in nodes.asked


def served(nodes: ScriptedNodes, *probes: dict[str, Any], topology: str = "solo") -> str:
    """What a wait for an engine says whose probes these are."""
    nodes.answers["engine.probe"] = list(probes)
    return awaited(nodes, made_run(topology=topology))


#: Two seconds are between two probes; the patience is 20 minutes.
MINUTE = 30


@pytest.mark.parametrize("state", [{"SubState": "start-pre", "ActiveState": "activating"}, {"asks": "7"}])
def test_what_a_start_waits_for_does_not_count_against_the_load(nodes: ScriptedNodes, state: dict[str, str]) -> None:
    waits = down(**state)
    assert served(nodes, *[waits] * 15 * MINUTE, *[down()] * 15 * MINUTE, OK) == ""


def test_a_second_load_has_its_own_time(nodes: ScriptedNodes) -> None:
    assert served(nodes, *[down()] * 15 * MINUTE, *[down(NRestarts="1")] * 15 * MINUTE, OK) == ""


@pytest.mark.parametrize(
    ("state", "minutes", "said"),
    [
        ({}, 20, "no answer in 20 minutes (Connection refused)"),
        ({"SubState": "start-pre"}, 60, "no answer in 60 minutes, with all that its start has waited for"),
    ],
)
def test_a_wait_has_an_end(nodes: ScriptedNodes, state: dict[str, str], minutes: int, said: str) -> None:
    assert said in served(nodes, down(**state))
    assert minutes * 60 <= nodes.now <= minutes * 60 + 10


def test_a_count_of_restarts_that_is_set_back_counts_from_there(nodes: ScriptedNodes) -> None:
    counts = ["4", "0", "1", "2", "2"]
    assert "it has restarted 2 times" in served(nodes, *[down(NRestarts=count) for count in counts])


def test_a_rank_that_has_failed_ends_the_wait_with_its_name_and_its_log(nodes: ScriptedNodes) -> None:
    nodes.answers["spark-2 unit.brief"] = [FAILED | {"log": ["No space left on device"]}]
    said = served(nodes, down(), topology="cluster")
    assert said.startswith("spark-2: ") and "its unit is failed" in said and "No space left on device" in said
    assert nodes.now < 10


def test_of_ranks_that_end_with_one_another_the_log_is_shown_of_the_one_that_says_why(nodes: ScriptedNodes) -> None:
    nodes.answers["spark-1 unit.brief"] = [
        FAILED | {"log": ["ValueError: 9999999 is too much"], "told": "ValueError: "}
    ]
    nodes.answers["spark-2 unit.brief"] = [FAILED | {"log": ["tandem: rank 0 ended"]}]
    said = served(nodes, down(), topology="cluster")
    assert said.startswith("spark-2: ") and "From the log of spark-1" in said and "9999999" in said


def test_what_a_rank_said_before_this_wait_is_not_taken_for_why_it_fails(nodes: ScriptedNodes) -> None:
    old = {"log": ["EngineDeadError: stopped yesterday"], "told": "EngineDeadError: stopped yesterday"}
    why = {"log": ["ValueError: 9999999 is too much"], "told": "ValueError: 9999999 is too much"}
    nodes.answers["spark-1 unit.brief"] = [{"state": {"ActiveState": "active"}} | old]
    nodes.answers["spark-1 unit.brief of this wait"] = [FAILED | why]
    nodes.answers["spark-2 unit.brief"] = [FAILED | old]
    nodes.answers["spark-2 unit.brief of this wait"] = [FAILED]
    problem = served(nodes, down(), topology="cluster")
    assert "From the log of spark-1" in problem and "9999999" in problem and "yesterday" not in problem
    # Where nobody has said why since, what was said before is all there is.
    nodes.answers["spark-1 unit.brief of this wait"] = [FAILED]
    assert "yesterday" in served(nodes, down(), topology="cluster")


def test_a_rank_that_waits_is_what_the_progress_tells(nodes: ScriptedNodes) -> None:
    waits = {"state": {"ActiveState": "activating", "SubState": "start-pre"}, "log": ["waiting: MemAvailable is 9 MiB"]}
    nodes.answers["spark-2 unit.brief"] = [*[waits] * 15 * MINUTE, {"state": {"ActiveState": "active"}, "log": []}]
    assert served(nodes, *[down()] * 22 * MINUTE, OK, topology="cluster") == ""
    assert "tandem-engine on spark-2: " in nodes.said[0] and "MemAvailable is 9 MiB" in nodes.said[0]


def test_the_virtual_address_has_to_give_a_token(nodes: ScriptedNodes) -> None:
    head = nodes.host("spark-1")
    assert readiness.await_address(made_run(topology="replicas"), head) == "" and nodes.asked == []
    wanted = made_run(topology="replicas", proxy_address="10.0.0.50")
    assert readiness.await_address(wanted, head) == "" and nodes.asked == ["engine.probe"]
    running = {"state": {"ActiveState": "active", "SubState": "running"}, "log": ["(tandem) Entering BACKUP STATE"]}
    nodes.answers["engine.probe"] = [{"ok": False, "problem": "timed out", "listens": False, **running}]
    problem = readiness.await_address(wanted, head)
    assert problem.startswith("spark-1: http://10.0.0.50:8000 does not serve: no answer in 1 minutes (timed out)")
    assert "journalctl -u tandem-address" in problem


def test_a_start_is_waited_for_as_long_as_the_last_ones_of_the_same_plan_say() -> None:
    run = made_run(topology="cluster")
    (model,) = run.plan.models
    where: Any = SimpleNamespace(name="spark-1")
    specs = {node.node.name: node.services[model.unit].spec for node in run.plan.nodes}
    assert readiness._patience_s(run, model, where) == 20 * 60
    run.looks.starts = {"spark-1": {specs["spark-1"]: 300.0}, "spark-2": {specs["spark-2"]: 1000.0, "other": 9e9}}
    assert readiness._patience_s(run, model, where) == 2000


def test_a_loader_that_has_failed_is_told_once_and_the_engine_goes_on(
    nodes: ScriptedNodes, caplog: pytest.LogCaptureFixture
) -> None:
    run = started(made_run(topology="solo", loader="auto"))
    why = "fastsafetensors failed on 2026-11-27 00:12: ImportError: no parallel_loader"
    line = f"tandem: the weights are loaded by engine, its own way: {why}"
    assert re.search(starts.FALLS_BACK, line)
    seen = {"joined": "joined", starts.FALLS_BACK: line}
    nodes.answers["engine.probe"] = [down(), down(), OK]
    nodes.answers["unit.journal"] = [{"seen": seen, "invocation": "i", "cursor": "c"}]
    with caplog.at_level("WARNING"):
        assert awaited(nodes, run) == ""
    told = [each for each in caplog.messages if why in each]
    assert len(told) == 1 and "by its own way now" in told[0]
