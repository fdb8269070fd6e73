"""`make advise` as it is called, and what `make plan` says."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from bench.advise.asking import declared
from bench.advise.remark import against
from operations.plan.formats import load_recipe
from tests.benchmark_report.made_up import RECIPE, made_up_run
from tests.plan.samples import ROOT, knobs


def advise(runs: Path | None = None, /, **environment: str) -> subprocess.CompletedProcess[str]:
    plain = {name: value for name, value in os.environ.items() if name not in ("LOAD", "RECIPE", "NODES")}
    where = {"BENCH_RUNS": str(runs or "/nonexistent")}
    return subprocess.run(
        [sys.executable, "-m", "bench.advise"],
        env=plain | where | environment, cwd=ROOT, capture_output=True, text=True, timeout=120, check=False,
    )  # fmt: skip


def test_the_declared_recipe_from_published_tables() -> None:
    told = advise(LOAD="users=8 prompt=1024 answer=256 ttft=2s")
    assert told.returncode == 0 and not told.stderr
    assert told.stdout.startswith(
        f"{declared()} on 2 Sparks: 8 users at once, 1,024 tokens in, 256 out, first token within"
    )
    assert "-> topology = replicas, routing = simple-shuffle" in told.stdout
    assert "[A] Nemotron-3-Super-120B: Topology Benchmark on DGX Spark (kubis.ai, 2026-03-30)" in told.stdout
    assert "the recipe's max-num-seqs lets 4 in at once; the KV cache has room for" in told.stdout
    assert 'make bench TOPOLOGIES="solo cluster replicas" PROMPT=1024 ANSWER=256' in told.stdout


def test_an_estimate_is_named_as_one() -> None:
    told = advise(LOAD="users=4", RECIPE="gemma-4-31b-it-nvfp4")
    assert told.returncode == 0
    assert "cluster, mp: prefill and first token: estimate\n" in told.stdout
    assert "an estimate is off by 19% as a rule, and by half at worst" in told.stdout


def test_own_runs_decide(tmp_path: Path) -> None:
    made_up_run(tmp_path / "made-up")
    told = advise(tmp_path, LOAD="users=8 prompt=1024 answer=128", RECIPE=RECIPE)
    assert told.returncode == 0
    assert "solo: all: own run, made-up, 8 users\n" in told.stdout and "published" not in told.stdout
    assert "-> topology = cluster, executor = mp" in told.stdout and "replicas, balanced" in told.stdout
    assert "your own figures" not in told.stdout


def test_a_run_of_another_recipe_and_a_cut_one_are_left_out(tmp_path: Path) -> None:
    made_up_run(tmp_path / "other", users=(1,), recipe="gpt-oss-120b-mxfp4")
    made_up_run(tmp_path / "cut", users=(1,))
    (tmp_path / "cut/requests.jsonl").write_text("")
    told = advise(tmp_path, LOAD="users=1 prompt=1024 answer=128", RECIPE=RECIPE)
    assert told.returncode == 0 and "own run" not in told.stdout and "[A], 1 user" in told.stdout


@pytest.mark.parametrize(
    ("environment", "said"),
    [
        ({"LOAD": "users=0"}, "users=`0` is no number of users"),
        ({}, "says no number of users"),
        ({"LOAD": "users=1 prompt=300000"}, "300,000 tokens in and 256 out are 300,256"),
        ({"LOAD": "users=1 best=speed"}, "no figure is named `speed`"),
        ({"LOAD": "users=1", "RECIPE": "no-such"}, "no-such"),
        ({"LOAD": "users=1", "NODES": "0"}, "`0` is no number of nodes"),
        ({"LOAD": "users=1", "NODES": "2", "RECIPE": "nemotron-3-ultra-nvfp4"}, "2 are too few"),
        ({"LOAD": "users=1", "RECIPE": "lab-tiny-llama"}, "nothing is known of lab-tiny-llama"),
        (
            {"LOAD": "users=6", "RECIPE": "nemotron-3-ultra-nvfp4"},
            "nothing can be said of it: cluster, mp: nothing is known",
        ),
    ],
)
def test_bad_input_is_one_line(environment: dict[str, str], said: str) -> None:
    told = advise(**environment)
    assert told.returncode == 1 and not told.stdout
    assert said in told.stderr and "Traceback" not in told.stderr
    assert len([line for line in told.stderr.splitlines() if "->" not in line and line != "advise:"]) == 1


def test_a_plan_of_solo_on_two_nodes_is_told_so(tmp_path: Path) -> None:
    said = against(load_recipe(RECIPE), knobs(topology="solo"), 2, tmp_path)
    assert said.startswith("topology=solo is behind at every load: 16.29 tok/s of decode where cluster, ray has 22.97")
    assert "published, [A]" in said and "\n" not in said


@pytest.mark.parametrize("topology", ["cluster", "replicas"])
@pytest.mark.parametrize("recipe", [RECIPE, "gpt-oss-120b-mxfp4", "gemma4-26b-a4b-fp8"])
def test_what_wins_somewhere_is_not_told_off(recipe: str, topology: str, tmp_path: Path) -> None:
    assert against(load_recipe(recipe), knobs(topology=topology), 2, tmp_path) == ""


def test_one_node_an_estimate_and_the_lab_are_no_reason(tmp_path: Path) -> None:
    for recipe, nodes in ((RECIPE, 1), ("gemma-4-31b-it-nvfp4", 2), ("lab-tiny-llama", 2)):
        assert against(load_recipe(recipe), knobs(topology="solo"), nodes, tmp_path) == ""


def test_own_runs_have_the_last_word_on_a_plan(tmp_path: Path) -> None:
    """Where the owner's solo is the fastest, the articles' tables are no reason against it."""
    made_up_run(tmp_path / "fast", names=("cluster/mp", "replicas"), slower=9.0)
    made_up_run(tmp_path / "solo", names=("solo",), slower=0.5)
    assert against(load_recipe(RECIPE), knobs(topology="solo"), 2, tmp_path) == ""
    assert "own run" in against(load_recipe(RECIPE), knobs(topology="cluster"), 2, tmp_path)
    # Of stages those runs say nothing.
    assert against(load_recipe(RECIPE), knobs(topology="cluster", pipeline_parallel=2), 2, tmp_path) == ""
