"""Whole runs of the bench on nodes that answer from a script, against doubles of engines that really stream."""

from __future__ import annotations

import json
import os
import signal
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from bench import folder
from bench.folder import read
from bench.records import Folder
from tests.benchmark.nodes import MODEL, Nodes, nodes

#: Small enough for many runs.
TINY = {"PROFILE": "quick", "USERS": "1 4", "REPEATS": "2", "PROMPT": "32", "ANSWER": "8"}


@pytest.fixture
def two(tmp_path: Path) -> Iterator[Nodes]:
    with nodes(tmp_path) as found:
        yield found


def only(runs: Path) -> Path:
    [found] = runs.iterdir()
    return found


def test_what_is_deployed_is_measured_through_the_proxy_and_each_engine(two: Nodes) -> None:
    done = two.bench(**TINY, SLO="ttft=5s tpot=1s")
    assert done.returncode == 0, done.stdout + done.stderr
    run, steps, requests = read(only(two.runs))
    assert {step.target for step in steps} == {"proxy", "@fake/spark-1", "@fake/spark-2"}
    assert len(steps) == 2 * (2 + 2 * 1) + 1 and two.deploys == []
    for step in steps:
        assert len(requests[step.name]) == step.requests and not any(each.error for each in requests[step.name])
        if not step.name.endswith("/known"):
            assert {(each.prompt_tokens, each.answer_tokens) for each in requests[step.name]} == {(32, 8)}
    assert all(each.right for each in requests["replicas/proxy/4/0/known"])
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
    assert "cluster/mp did not come up" in done.stdout


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGKILL])
def test_a_run_that_is_broken_off_goes_on_and_the_declared_topology_is_back(two: Nodes, number: signal.Signals) -> None:
    asked = {**TINY, "TOPOLOGIES": "solo replicas", "TARGETS": "proxy", "DATA": "topology=replicas"}
    process = two.begin(**asked)
    assert process.stdout is not None
    for line in process.stdout:
        if "solo/proxy/4/0" in line:
            break
    process.send_signal(number)
    said = process.communicate(timeout=120)[0]
    if number != signal.SIGKILL:
        assert process.returncode == 130 and "goes on where it was" in said, said
        assert two.deployed == "replicas" and "it is back" in said
    path = only(two.runs)
    folder.mend(Folder(path))
    before = {step.name for step in read(path)[1]}
    assert before and not any(name.startswith("replicas") for name in before)
    done = two.bench(**asked)
    assert done.returncode == 0, done.stdout + done.stderr
    assert only(two.runs) == path and f"going on: {len(before)} steps are there" in done.stdout
    steps = [step.name for step in read(path)[1]]
    assert len(steps) == len(set(steps)) == 2 * (2 * 2 + 1) and before < set(steps)
    assert two.deployed == "replicas"
    # It is over: the same again is another run.
    assert two.bench(**TINY, RUN=str(path)).stderr.count("was over at") == 1


def test_a_deploy_in_the_midst_is_broken_off_with_the_run(two: Nodes) -> None:
    (two.folder / "slow").touch()
    process = two.begin(**TINY, TOPOLOGIES="solo", DATA="topology=replicas")
    assert process.stdout is not None
    for line in process.stdout:
        if "deploying" in line:
            break
    deadline = time.monotonic() + 60
    while not two.deploys:
        assert time.monotonic() < deadline
        time.sleep(0.1)
    (two.folder / "slow").unlink()
    process.send_signal(signal.SIGTERM)
    said = process.communicate(timeout=120)[0]
    assert process.returncode == 130, said
    assert two.deploys == ["solo", "replicas"] and two.deployed == "replicas"


def test_a_step_that_nothing_answers_is_a_row_and_its_repeats_are_left_out(two: Nodes) -> None:
    done = two.bench(**{**TINY, "TARGETS": "engines"})
    assert done.returncode == 0
    path = only(two.runs)
    requests = [json.loads(line) for line in (path / "requests.jsonl").read_text().splitlines()]
    assert not any(request["error"] for request in requests)


def test_answers_that_are_wrong_or_cut_under_load_are_counted(two: Nodes) -> None:
    two.faults(stop_after=5)
    done = two.bench(**{**TINY, "TARGETS": "proxy", "REPEATS": "1", "USERS": "1"})
    assert "5 tokens came, 8 were asked for" in done.stdout
    os.remove(two.folder / "faults.json")
