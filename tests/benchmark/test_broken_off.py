"""Runs of the bench that are broken off: each goes on where it was, or is refused in one line."""

from __future__ import annotations

import signal

import pytest

from bench import folder
from bench.folder import read
from bench.records import Folder
from tests.benchmark.nodes import TINY, Nodes, only, refused
from tests.support.waiting import until


# After SIGTERM the last test goes on.
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGKILL])
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
    until(lambda: two.deploys, 60)
    (two.folder / "slow").unlink()
    process.send_signal(signal.SIGTERM)
    said = process.communicate(timeout=120)[0]
    assert process.returncode == 130, said
    assert two.deploys == ["solo", "replicas"] and two.deployed == "replicas"


def test_a_run_s_folder_that_does_not_fit_is_refused(two: Nodes) -> None:
    asked = {**TINY, "TARGETS": "proxy"}
    process = two.begin(**asked)
    assert process.stdout is not None
    for line in process.stdout:
        if "proxy/4/0" in line:
            break
    process.send_signal(signal.SIGTERM)
    said = process.communicate(timeout=60)[0]
    assert process.returncode == 130 and "goes on where it was" in said, said
    path = only(two.runs)
    refused(two, "is a run of other parameters", 2, **{**asked, "USERS": "2"}, RUN=str(path))
    refused(two, "has the seed", 2, **asked, SEED="5", RUN=str(path))
    refused(two, "there is no such folder", 2, **asked, RUN="/nowhere")
    run = (path / "run.json").read_text()
    (path / "run.json").write_text(run.replace("nemotron-3-super-nvfp4-auto", "gpt-oss-120b-mxfp4"))
    refused(two, "is a run of another recipe: its recipe is 'gpt-oss-120b-mxfp4'", **asked, RUN=str(path))
    (path / "run.json").write_text(run)
    requests = (path / "requests.jsonl").read_text()
    (path / "requests.jsonl").write_text(requests[requests.index("\n") + 1 :])
    refused(two, "was cut or changed: step replicas/proxy/1/0 had 1 requests, 0 are there", 2, **asked, RUN=str(path))
    (path / "requests.jsonl").write_text(requests)
    done = two.bench(**asked)
    assert done.returncode == 0 and "going on: " in done.stdout, done.stdout + done.stderr
    assert only(two.runs) == path
