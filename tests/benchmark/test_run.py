"""Whole runs of the bench on nodes that answer from a script, against doubles of engines that really stream."""

from __future__ import annotations

import json
import time

import pytest

from bench.folder import read
from bench.session import Session
from operations.plan.config.refusal import Refusal
from tests.benchmark.nodes import MODEL, TINY, Nodes, only, refused


def test_what_is_deployed_is_measured_through_the_proxy_and_each_engine(two: Nodes) -> None:
    done = two.bench(**TINY, SLO="ttft=5s tpot=1s")
    assert done.returncode == 0, done.stdout + done.stderr
    run, steps, requests = read(only(two.runs))
    assert {step.target for step in steps} == {"proxy", "@fake/spark-1", "@fake/spark-2"}
    assert len(steps) == 2 * (2 + 2 * 1) + 1 and two.deploys == []
    for step in steps:
        assert len(requests[step.name]) == step.requests and not any(each.error for each in requests[step.name])
        if not step.is_known:
            assert {(each.prompt_tokens, each.answer_tokens) for each in requests[step.name]} == {(32, 8)}
    assert all(each.right for each in requests["replicas/proxy/4/0/known"])
    assert "the page at /tandem/ of @fake/spark-1, @fake/spark-2 has it" in done.stdout
    [setup] = run.setups
    assert (setup.name, setup.nodes, setup.deploy_s) == ("replicas", 2, None)
    assert (run.recipe, run.served_name) == ("nemotron-3-super-nvfp4-auto", MODEL)
    assert run.client_pieces_s and run.client_pieces_s > 0
    # The client asks for exact lengths, and no two prompts are alike.
    bodies = [each["body"] for name in ("engine-1", "engine-2") for each in two.requests(name)]
    prompts = [json.dumps(body["messages"]) for body in bodies if body.get("ignore_eos")]
    assert len(prompts) == len(set(prompts)) > 20
    assert all(body["temperature"] == 0 and body["stream_options"]["include_usage"] for body in bodies)


def test_several_topologies_are_deployed_one_after_the_other_and_the_declared_one_is_put_back(two: Nodes) -> None:
    (two.folder / "broken").write_text("cluster")
    done = two.bench(**TINY, TOPOLOGIES="solo cluster replicas", TARGETS="proxy", DATA="topology=replicas")
    assert done.returncode == 0, done.stdout + done.stderr
    assert two.deploys == ["solo", "cluster", "replicas", "replicas"] and two.deployed == "replicas"
    run, steps, _ = read(only(two.runs))
    setups = {setup.name: setup for setup in run.setups}
    assert list(setups) == ["solo", "cluster/mp", "replicas"]
    assert "no room for the KV cache" in setups["cluster/mp"].why_not and setups["cluster/mp"].nodes == 0
    assert setups["solo"].why_not == "" and setups["solo"].deploy_s is not None
    assert {step.setup for step in steps} == {"solo", "replicas"}
    assert "cluster/mp did not come up: " in done.stdout


def test_rounds_go_on_until_all_is_known_or_the_time_is_spent(two: Nodes) -> None:
    asked = {name: value for name, value in TINY.items() if name != "REPEATS"}
    done = two.bench(**asked, FOR="30s", TARGETS="proxy")
    assert done.returncode == 0, done.stdout + done.stderr
    assert "at most 30 s of measuring (a round takes about " in done.stdout
    run, steps, _ = read(only(two.runs))
    rounds = {step.repeat for step in steps if not step.is_known}
    assert rounds == set(range(len(rounds))) and 1 <= len(rounds) <= run.repeats == 30
    why = ("each whole answer is known to 3%, after", "its time is spent, after")
    # On a quick machine whose figures jump all rounds are done before.
    assert any(each in done.stdout for each in why) or len(rounds) == run.repeats
    # Whatever the time, the known answers are asked.
    assert sum(step.is_known for step in steps) == 1 and "ended" in run.environment


def test_an_engine_that_dies_of_a_load_is_waited_for_and_not_asked_for_it_again(two: Nodes) -> None:
    two.faults(dies_of=3)
    asked = {**TINY, "TARGETS": "engines", "USERS": "1 4", "PROFILE": "decode200"}
    done = two.bench(**asked)
    assert done.returncode == 0, done.stdout + done.stderr
    _, steps, requests = read(only(two.runs))
    rows = {step.name: [bool(each.error) for each in requests[step.name]] for step in steps}
    assert rows["replicas/@fake/spark-1/1/0"] == [False] and rows["replicas/@fake/spark-1/4/0"] == [True] * 4
    # The first repeat of four users says it; one user is measured twice all the same.
    assert "replicas/@fake/spark-1/4/1" not in rows and rows["replicas/@fake/spark-1/1/1"] == [False]
    assert (
        "waiting until @fake/spark-1 serves again" in done.stdout
        and "left out: nothing of it was answered" in done.stdout
    )


def test_answers_that_are_cut_are_no_whole_answers(two: Nodes) -> None:
    two.faults(stop_after=5)
    done = two.bench(**{**TINY, "TARGETS": "proxy", "REPEATS": "1", "USERS": "1"})
    assert "5 tokens came, 8 were asked for" in done.stdout, done.stdout + done.stderr


def test_nodes_with_different_engines_are_asked_at_once(two: Nodes) -> None:
    inventory, delay_s = two.folder / "nodes.py", 4
    inventory.write_text(inventory.read_text().replace('"fake_delay": 0', f'"fake_delay": {delay_s}'))
    names = ["@fake/spark-1", "@fake/spark-2"]
    with Session(str(inventory), "") as session:
        begun = time.monotonic()
        assert sorted(session.states(names, {name: f"http://{name}" for name in names})) == names
        assert delay_s <= time.monotonic() - begun < 2 * delay_s


def test_a_node_that_does_not_answer_while_it_is_measured_is_named(two: Nodes) -> None:
    answers = json.loads((two.folder / "answers.json").read_text())
    answers["replicas"]["@fake/spark-2"]["look.bench_facts"] = {"success": False, "stderr": "sudo: no"}
    (two.folder / "answers.json").write_text(json.dumps(answers))
    names = ["@fake/spark-1", "@fake/spark-2"]
    with Session(str(two.folder / "nodes.py"), "") as session, pytest.raises(Refusal, match="spark-2") as refusal:
        session.states(names, {name: f"http://{name}" for name in names})
    assert "spark-1" not in str(refusal.value)


def test_what_can_t_be_measured_is_refused(two: Nodes) -> None:
    refused(two, "are longer than the context of 4,096", **{**TINY, "PROMPT": "4095"})
    two.faults(served="gpt-9")
    refused(two, "nemotron is not served; there is gpt-9", **TINY)
    refused(two, "no knob is named `topolgy`", 2, **TINY, DATA="topolgy=solo")
    answers = json.loads((two.folder / "answers.json").read_text())
    for node in answers["replicas"].values():
        node["look.bench_facts"] = node["look.bench_facts"].replace('"url": "http', '"gone": "http')
    (two.folder / "answers.json").write_text(json.dumps(answers))
    refused(two, "there is nothing to measure; `tandem apply` deploys what is declared", **TINY)
