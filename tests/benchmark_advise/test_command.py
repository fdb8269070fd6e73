"""`tandem advise` as it is called, and what `tandem plan` says."""

from __future__ import annotations

import io
import os
import shlex
import subprocess
import sys
from contextlib import redirect_stderr, redirect_stdout
from pathlib import Path

import pytest

from bench.advise.__main__ import main
from bench.advise.asking import declared
from bench.advise.remark import against
from operations.plan.recipes.formats import load_recipe
from tests.benchmark_report.made_up import RECIPE, made_up_run
from tests.plan.samples import ROOT, knobs

MTP = "qwen3.6-35b-a3b-nvfp4-mtp"


def advise(runs: Path | None = None, /, **environment: str) -> subprocess.CompletedProcess[str]:
    """Output and exit code of `tandem advise`, run in this process: a start of Python takes longer than an answer."""
    # Without a terminal's width of their own, programs take that of whoever runs the tests.
    where = {"COLUMNS": "100", **environment}
    said, refused = io.StringIO(), io.StringIO()
    with pytest.MonkeyPatch.context() as patch, redirect_stdout(said), redirect_stderr(refused):
        for name in ("LOAD", "RECIPE", "NODES"):
            patch.delenv(name, raising=False)
        for name, value in where.items():
            patch.setenv(name, value)
        patch.chdir(ROOT)
        code = main(runs or Path("/nonexistent"))
    return subprocess.CompletedProcess([], code, said.getvalue(), refused.getvalue())


def test_it_is_a_program_that_ends_with_its_code_and_reads_own_runs(tmp_path: Path) -> None:
    made_up_run(tmp_path / "made-up")
    where = {"RECIPE": RECIPE, "BENCH_RUNS": str(tmp_path)}

    def run(load: str) -> subprocess.CompletedProcess[str]:
        argv, env = [sys.executable, "-m", "bench.advise"], os.environ | where | {"LOAD": load}
        return subprocess.run(argv, env=env, cwd=ROOT, capture_output=True, text=True, timeout=120, check=False)

    refused = run("0 users")
    assert refused.returncode == 2 and not refused.stdout and refused.stderr.startswith("advise: load: ")
    told = run("users=8 prompt=1024 answer=128")
    assert told.returncode == 0 and "Measured here (made-up, 8 users)." in told.stdout


def test_the_answer_is_the_first_line_and_a_command() -> None:
    told = advise(LOAD="1 user 1024 in 128 out")
    assert told.returncode == 0 and not told.stderr
    first, figures, *_ = told.stdout.splitlines()
    assert first == "Run the cluster: tandem apply topology=cluster"
    assert figures.startswith("1 user: first token 485 ms, 23 tokens a second each, whole answer 6.0 s. Replicas: ")
    source = "Measured by others, [A], 1 user, with nemotron-3-super-nvfp4-cutlass on vllm 0.17.2rc1"
    assert source in " ".join(told.stdout.split())
    assert f"  {declared()} on 2 Sparks; 1 user, 1,024 tokens in, 128 out" in told.stdout
    assert "on your own Sparks: not yet." in " ".join(told.stdout.split())
    other = " ".join(advise(LOAD="1 user", RECIPE=MTP, NODES="1").stdout.replace("\\\n", "").split())
    assert f'from then on: tandem bench recipe={MTP} --topologies "solo" --prompt 1024 --answer 256 --detail' in other
    # The routing stays as it is declared, whatever others have measured with.
    many = advise(LOAD="32 users").stdout
    assert many.startswith("Run replicas: tandem apply topology=replicas\n")
    assert 'tandem bench --topologies "solo cluster replicas" --prompt 1024 --answer 256' in " ".join(many.split())
    # Over several lines it is still one command, as a shell reads it.
    *_, asked = advise(LOAD="1 user", RECIPE="nemotron-3-super-nvfp4-cutlass").stdout.partition("from then on:\n")
    argv = ["tandem", "bench", "recipe=nemotron-3-super-nvfp4-cutlass", "--topologies", "solo cluster replicas"]
    argv += ["--prompt", "1024", "--answer", "256"]
    assert shlex.split(asked.partition("--detail")[0].replace("\\\n", "")) == argv


def test_a_recipe_of_a_path_is_named_by_its_path(tmp_path: Path) -> None:
    path = tmp_path / "mine with a blank.yaml"
    path.write_text((ROOT / f"files/recipes/{MTP}.yaml").read_text())
    told = advise(LOAD="1 user", RECIPE=str(path), NODES="1").stdout
    assert shlex.split(told.partition(": ")[2].partition("\n")[0])[:3] == ["tandem", "apply", f"recipe={path}"]
    bench = told.partition("from then on:\n")[2].partition("--detail")[0].replace("\\\n", "")
    assert shlex.split(bench)[:3] == ["tandem", "bench", f"recipe={path}"]
    most = advise(LOAD="chat ttft=2s", RECIPE=str(path), NODES="1").stdout
    assert shlex.split(most.splitlines()[1])[:3] == ["tandem", "apply", f"recipe={path}"]


@pytest.mark.parametrize(
    "load", ["8 users", "chat ttft=2s", "4 coding agents", "2 users 100k in", "64 users long documents"]
)
@pytest.mark.parametrize("nodes", ["2", "4", "2 4"])
def test_no_line_is_wider_than_a_terminal(load: str, nodes: str) -> None:
    told = advise(LOAD=load, NODES=nodes)
    assert told.returncode == 0, told.stderr
    assert max(map(len, told.stdout.splitlines())) <= 100


def test_the_source_of_each_figure_by_asking() -> None:
    assert "kubis.ai" not in advise(LOAD="8 users").stdout
    told = advise(LOAD="8 users", DETAIL="1").stdout
    assert "[A] Nemotron-3-Super-120B: Topology Benchmark on DGX Spark (kubis.ai, 2026-03-30)" in told


def test_what_is_not_measured_says_so_and_by_how_much_it_may_be_off() -> None:
    told = advise(LOAD="4 users", RECIPE="nemotron-3-super-nvfp4-trtllm")
    said = " ".join(told.stdout.split())
    assert "Estimated from what the model reads and computes; off by 12% as a rule, 77% at worst. Nobody has" in said
    longer = " ".join(advise(LOAD="1 user 100k in").stdout.split())
    assert "no table has one user at prompts above 1,024 tokens, but for three figures at 46,000 (151% at w" in longer
    assert "Computed from [A], measured with 1,024 in and 1 to 64 users" in longer
    assert "; error unknown. Nobody has measured this" in longer


def test_how_many_users_at_a_target() -> None:
    told = advise(LOAD="chat ttft=2s each=10")
    assert told.returncode == 0 and told.stdout.startswith("Up to 6 users with replicas:\n  tandem apply ")
    assert "with one more: first token" in told.stdout and "cluster" in told.stdout
    # Who waits for his turn has no speed meanwhile.
    assert advise(LOAD="chat each=10").stdout.startswith("Up to 8 users with replicas")
    nobody = advise(LOAD="chat ttft=1ms")
    assert nobody.stdout.startswith("Nobody: first token within 1 ms is missed by one user alone")


def test_which_recipe() -> None:
    told = advise(LOAD="8 users chat", RECIPE="any")
    assert told.returncode == 0 and told.stdout.startswith("The fastest is ")
    assert "recipe=" in told.stdout.splitlines()[1] and "how good answers are is not judged" in " ".join(
        told.stdout.split()
    )
    assert "left out: nemotron-3-ultra-nvfp4: 2 are too few, it needs 4" in told.stdout


def test_a_recipe_without_a_row_is_left_out_with_what_is_known_of_it() -> None:
    alone = " ".join(advise(LOAD="1 user coding agent", RECIPE="any", NODES="1").stdout.split())
    assert "left out: nemotron-3.5-lightning-nvfp4: solo: decode alone is known, 108 tok/s for 1 user ([AC])" in alone
    assert "left out: qwen3.8-flash-next-nvfp4: 1 is too few, it needs 2" in alone
    assert "nothing is known at this load" not in alone
    # One recipe alone is left, and it stands among the others all the same.
    alone = " ".join(advise(LOAD="1 user 766k in", RECIPE="any").stdout.split())
    assert alone.startswith("The fastest is nemotron-3-super-nvfp4-trtllm") and "left out: gpt-oss-120b-mxfp4:" in alone
    none = advise(LOAD="1 user 2000k in", RECIPE="any")
    said = "2,000,000 tokens in and 256 out are 2,000,256; the longest takes 1,048,576 together; shorten one"
    assert none.returncode == 2 and none.stderr == f"advise: load: {said}\n"
    long = " ".join(advise(LOAD="2 users 200k in", RECIPE="any").stdout.split())
    assert "left out: gpt-oss-120b-mxfp4: takes 131,072 together (max-model-len)" in long


def test_what_tensorrt_llm_lets_in_is_known() -> None:
    recipe = "nemotron-3-super-nvfp4-trtllm"
    assert "8 of 64" in advise(LOAD="64 users", RECIPE=recipe, NODES="1").stdout
    longer = advise(LOAD="1 user 2000k in", RECIPE=recipe)
    assert longer.returncode == 2 and "takes 1,048,576 together (max-seq-len)" in longer.stderr


def test_one_spark_is_told_so() -> None:
    told = advise(LOAD="4 users", NODES="1 2").stdout
    assert told.startswith("A little: 2 Sparks in place of 1 bring the whole answer after")
    assert "\n1 Spark   solo" in told and "1 Sparks" not in told
    assert "on 1 Spark it runs in no other way" in advise(LOAD="1 user", NODES="1").stdout


@pytest.mark.parametrize(("recipe", "took"), [("", "22.8"), ("nemotron-3-super-nvfp4-auto-mtp", "25.8"), (MTP, "9.5")])
def test_a_long_answer_that_others_had_is_not_called_unmeasured(recipe: str, took: str) -> None:
    told = " ".join(advise(LOAD="1 user prompt=46000 answer=100", RECIPE=recipe, NODES="1").stdout.split())
    assert f"Others had the whole answer after {took} s at 46,000 tokens in, 100 out ([N])." in told
    assert "Nobody has measured" not in told


@pytest.mark.parametrize(
    "asked",
    [
        {"LOAD": "1 user prompt=30000 answer=100"},
        {"LOAD": "1 user prompt=46000 answer=2000"},
        {"LOAD": "2 users prompt=46000 answer=100"},
        {"LOAD": "1 user prompt=46000 answer=100 cached=50%"},
        {"LOAD": "1 user prompt=46000 answer=100", "RECIPE": "nemotron-3-super-nvfp4-marlin"},
        {"LOAD": "1 user prompt=46000 answer=100", "NODES": "2"},
    ],
)
def test_what_others_had_stands_beside_the_same_alone(asked: dict[str, str]) -> None:
    told = advise(**{"NODES": "1", **asked})
    assert told.returncode == 0 and "Others had" not in " ".join(told.stdout.split())


def test_who_has_read_enough_gets_no_traceback() -> None:
    command = f"LOAD='1 user' {sys.executable} -m bench.advise | true"
    told = subprocess.run(["sh", "-c", command], cwd=ROOT, capture_output=True, text=True, timeout=120, check=False)
    assert not told.stderr


def test_whether_a_second_pair_is_worth_it() -> None:
    told = advise(LOAD="8 users chat", NODES="2 4")
    assert told.stdout.startswith("Yes: 4 Sparks in place of 2 bring the whole answer after")
    assert advise(LOAD="1 user chat", NODES="2 3").stdout.startswith("No difference that one could be sure of")


def test_own_runs_decide(tmp_path: Path) -> None:
    made_up_run(tmp_path / "made-up")
    told = advise(tmp_path, LOAD="users=8 prompt=1024 answer=128", RECIPE=RECIPE, DETAIL="1")
    assert told.returncode == 0
    assert "solo: own run, made-up, 8 users\n" in told.stdout and "published" not in told.stdout
    assert told.stdout.startswith(f"Run the cluster: tandem apply recipe={RECIPE} topology=cluster executor=mp")
    assert "Measured here (made-up, 8 users)." in told.stdout and "your own figures" not in told.stdout


def test_one_run_that_is_named(tmp_path: Path) -> None:
    made_up_run(tmp_path / "one")
    told = advise(LOAD="users=8 prompt=1024 answer=128", RECIPE=RECIPE, RUN=str(tmp_path / "one"))
    assert "Measured here (one, 8 users)." in told.stdout


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
        (
            {"LOAD": "1 user", "RECIPE": "llama-3.3-70b"},
            "no recipe is named `llama-3.3-70b`; one of: gemma-4-31b",
        ),
        ({"LOAD": "1 user", "RECIPE": "gemma-4-31b-nvfp4"}, "did you mean `gemma-4-31b-it-nvfp4`?"),
        ({"LOAD": "1 user 766k in"}, "766,000 tokens in and 256 out are 766,256; nemotron-3-super-nvfp4-auto takes"),
        ({"LOAD": "2.5 users"}, "users=`2.5` is no number of users"),
        ({"LOAD": "8 users 0 in"}, "prompt=`0` is no number of tokens"),
        ({"LOAD": "8 users cached=100%"}, "cached=`100%` is no share of a prompt"),
        ({"LOAD": "users=1", "NODES": "0"}, "`0` is no number of nodes"),
        (
            {"LOAD": "users=1", "NODES": "2", "RECIPE": "nemotron-3-ultra-nvfp4"},
            "2 are too few, it needs 4; ask for nemotron-3-",
        ),
        ({"LOAD": "users=1", "RECIPE": "lab-tiny-llama"}, "nothing is known of lab-tiny-llama"),
        ({"LOAD": "8 users", "RECIPE": "gpt-oss"}, "no recipe is named `gpt-oss`; did you mean `gpt-oss-120b-mxfp4`?"),
        (
            {"LOAD": "8 users", "RECIPE": "any", "NODES": "2 4"},
            "choose a recipe first (--recipe any --nodes 2), then name it with --nodes '2 4'",
        ),
        ({"LOAD": "please what should we run"}, "`please`, `what`, `should`, `we`, `run` are no words of a load; they"),
        ({"LOAD": "8 users", "RUN": "/nonexistent"}, "there is no such folder"),
        (
            {"LOAD": "users=6", "RECIPE": "nemotron-3-ultra-nvfp4"},
            'for 1 user ([R]); measure it: tandem bench recipe=nemotron-3-ultra-nvfp4 --topologies "cluster"',
        ),
        # A recipe that says no least number of nodes: its cluster is of two.
        (
            {"LOAD": "1 user", "RECIPE": "qwen3.8-flash-next-nvfp4"},
            "nothing can be said of it: cluster, mp: decode alone is known, 38.7 tok/s for 1 user ([O]); measure it: ",
        ),
        (
            {"LOAD": "1 user", "RECIPE": "qwen3.8-flash-next-nvfp4", "NODES": "1 2"},
            "1 is too few, it needs 2; ask for qwen3.8-flash-next-nvfp4 with --nodes 2",
        ),
        (
            {"LOAD": "64 users", "RECIPE": "nemotron-3-super-nvfp4-marlin", "NODES": "1"},
            'fewer users, or measure it: tandem bench recipe=nemotron-3-super-nvfp4-marlin --topologies "solo"',
        ),
        (
            {"LOAD": "1 user", "RECIPE": "nvidia/Llama-3.3-70B-Instruct-NVFP4"},
            "recipes alone; the file of one ends in .yaml; whether a model of this name fits says: tandem fit nv",
        ),
        ({"LOAD": "1 user", "RECIPE": "llama-3.3"}, "; whether another model fits says: tandem fit ORG/NAME"),
    ],
)
def test_bad_input_is_one_line(environment: dict[str, str], said: str) -> None:
    told = advise(**environment)
    assert told.returncode == (1 if "measure it" in said else 2) and not told.stdout
    assert said in told.stderr and "Traceback" not in told.stderr
    assert len([line for line in told.stderr.splitlines() if "->" not in line and line != "advise:"]) == 1


def test_a_run_of_another_recipe_or_of_more_nodes_is_one_line(tmp_path: Path) -> None:
    made_up_run(tmp_path / "one")
    other = advise(LOAD="8 users", RUN=str(tmp_path / "one"))
    assert other.returncode == 2 and other.stderr == (
        f"advise: --run: one is a run of {RECIPE}, and {declared()} is asked about; "
        f"leave --run out, or ask with --recipe {RECIPE}\n"
    )
    fewer = advise(LOAD="8 users", RECIPE=RECIPE, NODES="1", RUN=str(tmp_path / "one"))
    assert fewer.returncode == 2 and "one is a run of 2 nodes, not 1; ask with --nodes 2" in fewer.stderr


def test_what_was_measured_with_another_routing_stands_beside_what_is_computed() -> None:
    told = " ".join(advise(LOAD="8 users").stdout.split())
    said = "With simple-shuffle: 2.9 s, 9.7, 29 s (measured by others: [A], 8 users and 128 tokens out, with nemotron"
    assert f"off by 10% as a rule, 77% at worst. {said}" in told


def test_of_a_cluster_larger_than_any_table_s_no_error_is_told() -> None:
    told = " ".join(advise(LOAD="8 users", NODES="8").stdout.split())
    assert "Run the cluster" in told
    assert "error unknown" in told and "or a cluster of more than 4." in told
    assert "computed; nobody has measured clusters of 8" in told


def test_a_plan_of_solo_on_two_nodes_is_told_so(tmp_path: Path) -> None:
    said = against(load_recipe(RECIPE), knobs(topology="solo"), 2, tmp_path)
    assert said.startswith(
        "topology=solo is behind at every load that was measured: 16.29 tok/s of decode where cluster, ray has 22.97"
    )
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


def test_a_line_is_said_once_and_the_last_one_names_all_recipes() -> None:
    told = advise(LOAD="10 users coding agent").stdout
    behind = told.partition("what would change it")[2].splitlines()[1:]
    assert len(behind) == len(set(behind))
    assert behind[-1] == f"This is for {declared()} alone. All recipes: --recipe any"
    assert "All recipes" not in advise(LOAD="8 users", RECIPE=declared()).stdout


def test_the_errors_of_a_table_are_said_once_above_it() -> None:
    for asked in ({"LOAD": "8 users"}, {"LOAD": "8 users", "RECIPE": "any"}, {"LOAD": "chat ttft=2s each=10"}):
        told = advise(**asked).stdout
        before, columns, behind = told.partition("  how sure\n")
        above = before.rpartition("\n\n")[2]
        assert columns and above.startswith("Figures that are computed are off by 10% as a rule, 77% at worst"), told
        assert "computed" in behind and "off by" not in behind.partition("\n\n")[0], told
