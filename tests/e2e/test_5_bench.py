"""`tandem bench` on the lab: three topologies in turn, broken off and gone on with, and a deploy kept out meanwhile.

What the page then tells of it.
"""

from __future__ import annotations

import os
import signal
import subprocess
from collections.abc import Iterator
from functools import partial
from pathlib import Path

import pytest

from bench.figures import figures
from bench.folder import read
from tests.chaos import client
from tests.e2e.settled import wait_for
from tests.e2e.test_3_page import told
from tests.lab import chat, cluster
from tests.lab.cluster import HEAD, INVENTORY, WORKER, deploy
from tests.lab.settings import LabNode

pytestmark = [pytest.mark.lab, pytest.mark.long]

#: What is declared, and what has to be there again at the end.
KNOBS = {"topology": "replicas", "monitoring": "metrics"}
DECLARED = " ".join(f"{name}={value}" for name, value in KNOBS.items())


@pytest.fixture(scope="module")
def replicas() -> Iterator[None]:
    """Two booted nodes with replicas, whatever the tests before have taken away."""
    cluster.lab("up")
    done = deploy(**KNOBS)
    assert done.code == 0, done.text
    yield
    cluster.lab("down")


@pytest.fixture
def runs(tmp_path: Path) -> Path:
    return tmp_path / "runs"


def argv(**asked: str) -> list[str]:
    return [
        "make",
        "--silent",
        "bench",
        f"INVENTORY={INVENTORY}",
        *(f"{name}={value}" for name, value in asked.items()),
    ]


def bench(runs: Path, **asked: str) -> subprocess.CompletedProcess[str]:
    environment = {**os.environ, "BENCH_RUNS": str(runs)}
    return subprocess.run(argv(**asked), cwd=cluster.ROOT, env=environment, capture_output=True, text=True, check=False)


def only(runs: Path) -> Path:
    [found] = runs.iterdir()
    return found


@pytest.mark.usefixtures("replicas")
def test_three_topologies_broken_off_and_gone_on_with(runs: Path) -> None:
    asked = {
        "PROFILE": "quick",
        "TOPOLOGIES": "solo cluster replicas",
        "REPEATS": "2",
        "DATA": DECLARED,
        "SLO": "ttft=5s tpot=1s",
    }
    environment = {**os.environ, "BENCH_RUNS": str(runs)}
    process = subprocess.Popen(
        argv(**asked), cwd=cluster.ROOT, env=environment, stdout=subprocess.PIPE, text=True, start_new_session=True
    )
    assert process.stdout is not None
    for line in process.stdout:
        if "cluster/mp/proxy/2/0" in line:
            break
    # The lock is held: nobody deploys into a measurement.
    refused = deploy(**KNOBS)
    assert refused.code != 0 and "a bench is at work" in refused.text, refused.text[-2000:]
    second = bench(runs, PROFILE="quick", DATA=DECLARED)
    assert second.returncode != 0 and "another bench is at work" in second.stderr, second.stderr
    os.killpg(process.pid, signal.SIGKILL)
    process.communicate()
    done = bench(runs, **asked)
    assert done.returncode == 0, done.stdout[-3000:] + done.stderr[-3000:]
    assert "going on: " in done.stdout
    run, steps, requests = read(only(runs))
    assert [setup.name for setup in run.setups] == ["solo", "cluster/mp", "replicas"]
    assert all(setup.why_not == "" and setup.plan and setup.versions["engine image content"] for setup in run.setups)
    assert not [each.error for some in requests.values() for each in some if each.error]
    known = [each.right for step in steps if step.is_known for each in requests[step.name]]
    assert known and all(known)
    for step in steps:
        found = figures(step, requests[step.name], None)
        assert found.decode_tok_s and found.prefill_tok_s and step.engines, step.name
        if step.prompt_tokens:
            assert {each.prompt_tokens for each in requests[step.name]} == {64}, step.name
    shares = [figures(step, requests[step.name], None).largest_share for step in steps if step.setup == "replicas"]
    assert any(share is not None for share in shares)
    # What is declared is back.
    assert deploy(**KNOBS).changes == 0
    assert "the page at /tandem/ of spark-1, spark-2 has it" in done.stdout
    at = chat.endpoint()
    # Advice is for what clients ask.
    with client.load(at, client.learn(at)):
        for node in (HEAD, WORKER):
            wait_for(partial(is_advised, node), 120)
            bench_told = told(node)["models"][0]["bench"]
            assert bench_told["folder"] == only(runs).name, bench_told
            assert {row["setup"].split(",")[0] for row in bench_told["rows"]} == {"solo", "cluster", "replicas"}


def is_advised(node: LabNode) -> bool:
    sentence = told(node)["models"][0]["advice"]["sentence"]
    print(sentence)
    return sentence.startswith("At ") and "own run" in sentence


@pytest.mark.usefixtures("replicas")
def test_the_client_runs_on_the_head_as_well(runs: Path) -> None:
    done = bench(runs, PROFILE="quick", USERS="2", REPEATS="1", FROM="head", DATA=DECLARED)
    assert done.returncode == 0, done.stdout[-3000:] + done.stderr[-3000:]
    _, steps, requests = read(only(runs))
    assert len(steps) == 4 and not [each.error for some in requests.values() for each in some if each.error]
    assert cluster.containers(HEAD) == cluster.SERVING


@pytest.mark.usefixtures("replicas")
def test_the_real_llama_benchy_reads_the_tokenizer_of_the_head(runs: Path) -> None:
    asked = {"USERS": "1 2", "REPEATS": "2", "PROMPT": "64", "ANSWER": "16", "TARGETS": "proxy"}
    done = bench(runs, PROFILE="articles", BOOK="docs/security.md", DATA=DECLARED, **asked)
    assert done.returncode == 0, done.stdout[-3000:] + done.stderr[-3000:]
    _, steps, requests = read(only(runs))
    assert len(steps) == 4
    for step in steps:
        assert not [each.error for each in requests[step.name] if each.error]
        assert figures(step, requests[step.name], None).decode_tok_s
