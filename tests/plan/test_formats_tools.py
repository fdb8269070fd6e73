"""Recipes of eugr's tool and of sparkrun mean here what they mean there (sparkrun 0.4.2, run-recipe.py)."""

from __future__ import annotations

import shlex
import subprocess
from pathlib import Path

import pytest

from operations.plan.config.refusal import Refusal
from operations.plan.recipes.recipe import Recipe
from tests.plan.samples import engine_of, knobs, make_plan, nodes
from tests.plan.test_formats import V1, V2, commands, read


def said(recipe: Recipe) -> dict[str, bool]:
    """What is remarked, and whether it is an error."""
    return {str(each): each.error for each in recipe.remarks}


def remarked(recipe: Recipe, text: str, *, error: bool) -> bool:
    return any(text in problem and each is error for problem, each in said(recipe).items())


def with_defaults(text: str, more: str) -> str:
    return text.replace("max_model_len: 4096", f"max_model_len: 4096, {more}")


def test_a_model_is_filled_in_from_its_key_in_eugr_s_format_too(tmp_path: Path) -> None:
    recipe = read(tmp_path, f"{V1}command: vllm serve {{model}} --tokenizer {{model}} --a 1\n")
    assert (recipe.model.repo, recipe.flag_argv) == ("org/model", ["--tokenizer", "org/model", "--a", "1"])
    assert not [each for each in recipe.remarks if each.error]


def test_a_model_s_revision_pins_it_in_eugr_s_format_too(tmp_path: Path) -> None:
    recipe = read(tmp_path, f"{V1}command: vllm serve org/model\nmodel_revision: {'a' * 40}\n")
    assert recipe.model.revision == "a" * 40


@pytest.mark.parametrize("text", [V1, V2], ids=["eugr", "sparkrun"])
def test_placeholders_may_have_hyphens(tmp_path: Path, text: str) -> None:
    command = "command: |\n  vllm serve org/model --a {max-num-seqs} --b '{{\"n\": {max-num-seqs}}}'\n"
    recipe = read(tmp_path, with_defaults(text, "max-num-seqs: 7") + command)
    assert recipe.flag_argv == ["--a", "7", "--b", '{"n": 7}']
    recipe = read(
        tmp_path, with_defaults(text, "max_num_seqs: 7") + "command: vllm serve org/model --a {max-num-seqs}\n"
    )
    assert remarked(recipe, "`{max-num-seqs}` in the command has no default; did you mean `max_num_seqs`?", error=True)


@pytest.mark.parametrize("text", [V1, V2], ids=["eugr", "sparkrun"])
def test_a_variable_of_the_shell_is_no_placeholder(tmp_path: Path, text: str) -> None:
    command = 'command: vllm serve org/model --a ${X} --b "${HERE}/y z" --c "${Y:-3}"\nenv: {X: 5}\n'
    recipe = read(tmp_path, text + command)
    assert not [each for each in recipe.remarks if each.error]
    assert remarked(recipe, "`${HERE}` in `${HERE}/y z` is left to the container's shell", error=False)
    script = started(recipe)
    assert by_sh(script, HERE="/opt/h") == ["--a", "5", "--b", "/opt/h/y z", "--c", "3"]


def started(recipe: Recipe) -> str:
    """start.sh, with the engine replaced by its words, and Python's output by nothing."""
    model = recipe.model.model_copy(update={"revision": "0" * 40})
    wanted = knobs(topology=recipe.topologies[0], executor="mp")
    planned = engine_of(make_plan(recipe.model_copy(update={"model": model}), wanted, nodes(2, wanted)).head)
    assert planned
    return next(file.content for file in planned.files if file.path.endswith("start.sh"))


def by_sh(script: str, **env: str) -> list[str]:
    """The recipe's flags as a shell in a container makes them."""
    script = script.replace("exec vllm", "exec printf '%s\\n'")
    run = subprocess.run(["sh", "-c", script], capture_output=True, text=True, check=True, env={"PATH": "/bin"} | env)
    words = run.stdout.splitlines()
    return words[words.index("--a") : words.index("--a") + 6]


def test_a_variable_that_looks_like_a_default_is_an_error(tmp_path: Path) -> None:
    recipe = read(tmp_path, f"{V2}command: vllm serve org/model --a ${{max_model_len}}\n")
    assert remarked(recipe, "`${max_model_len}` in the command is a variable of the shell", error=True)


def test_variables_in_eugr_s_env_are_filled_in_by_the_container_s_shell(tmp_path: Path) -> None:
    recipe = read(
        tmp_path, f'{V1}command: vllm serve org/model\nenv: {{LD_LIBRARY_PATH: "/x:$LD_LIBRARY_PATH", A: 1}}\n'
    )
    assert recipe.exports == {"LD_LIBRARY_PATH": "/x:$LD_LIBRARY_PATH"} and recipe.env == {"A": "1"}


def test_runtime_config_and_keys_beside_defaults_are_no_flags(tmp_path: Path) -> None:
    recipe = read(tmp_path, f"{V2}runtime_config: {{max_num_seqs: 3, dashboard: true}}\nmax_num_batched_tokens: 5\n")
    assert recipe.flag_argv == ["--max-model-len", "4096"]
    assert remarked(recipe, "`max_num_seqs` under `runtime_config` is no flag that sparkrun makes", error=False)
    assert remarked(recipe, "write `max_num_batched_tokens` under `defaults`", error=False)
    assert not any("dashboard" in problem for problem in said(recipe))


def test_what_sparkrun_makes_no_flag_of_is_left_out_with_a_word(tmp_path: Path) -> None:
    more = "max_num_seq: 4, lm_head_dtype: x, trust_remote_code: 'true', enforce_eager: 'false'"
    more += ", chat_template: '\"a b\" c'"
    recipe = read(tmp_path, with_defaults(V2, more))
    assert recipe.flag_argv == ["--max-model-len", "4096", "--trust-remote-code", "--chat-template", "a b", "c"]
    assert remarked(recipe, "`max_num_seq` under `defaults` is no flag that sparkrun makes", error=False)
    assert remarked(recipe, "did you mean `max_num_seqs`?", error=False)
    assert remarked(recipe, "write a `command` with --lm-head-dtype if it is meant", error=False)


@pytest.mark.parametrize("text", [V1, V2], ids=["eugr", "sparkrun"])
def test_a_default_that_no_placeholder_uses_is_named(tmp_path: Path, text: str) -> None:
    more = "gpu_memory_utilisation: 0.8, gpu_memory_utilization: 0.9, inner: 3, outer: 'x{inner}'"
    command = "command: vllm serve org/model --a {gpu_memory_utilization} --b {outer} --max-model-len {max_model_len}\n"
    recipe = read(tmp_path, with_defaults(text, more).replace("yep: true", "port: 8000") + command)
    idle = [problem for problem in said(recipe) if "is used by no placeholder" in problem]
    assert len(idle) == 1 and not said(recipe)[idle[0]]
    assert idle[0].startswith("`gpu_memory_utilisation`") and "did you mean `gpu_memory_utilization`?" in idle[0]


def test_sparkrun_s_env_is_filled_from_defaults_and_what_no_plan_knows_is_an_error(tmp_path: Path) -> None:
    recipe = read(
        tmp_path, V2 + "env: {A: 'x{config.max_model_len}', B: '{launch.cluster_id}', C: '{\"config.x\": 1}'}\n"
    )
    assert recipe.env["A"] == "x4096" and recipe.env["C"] == '{"config.x": 1}'
    assert remarked(recipe, "env `B` has `{launch.cluster_id}`", error=True)


def test_doubled_braces_in_sparkrun_s_defaults_are_one_each(tmp_path: Path) -> None:
    recipe = read(tmp_path, with_defaults(V2, 'speculative_config: \'{{"a": {{"b": 1}}}}\''))
    assert recipe.flag_argv[-1] == '{"a": {"b": 1}}'


@pytest.mark.parametrize("runtime", ["ollama", "atlas", "modular-max"])
def test_a_runtime_that_is_not_served_here_is_the_reason(tmp_path: Path, runtime: str) -> None:
    text = V2.replace("runtime: vllm", f"runtime: {runtime}").replace("container: registry.example/image:latest\n", "")
    with pytest.raises(Refusal) as refused:
        read(tmp_path, f"{text}command: {runtime} serve org/model\n")
    assert [each.problem for each in refused.value.findings] == [f"its runtime is `{runtime}`"]


def test_a_command_of_another_engine_is_the_reason_before_a_missing_image(tmp_path: Path) -> None:
    text = V2.replace("runtime: vllm\n", "").replace("container: registry.example/image:latest\n", "")
    with pytest.raises(Refusal, match="it serves with `tabby`"):
        read(tmp_path, f"{text}command: tabby serve x\n")


@pytest.mark.parametrize(
    ("changes", "format"),
    [
        ("name: x", "eugr"),
        ("name: x\nmods: [mods/fix]\nbuild_args: [--tf5]", "eugr"),
        ("solo_only: true", "eugr"),
        ("mods: [mods/fix]", "sparkrun"),
        ("name: x\nbuild_args: [--tf5]\nmin_nodes: 2", "sparkrun"),
        ("name: x\nmetadata: {maintainer: y}", "sparkrun"),
        ("name: x\nruntime: vllm", "sparkrun"),
    ],
)
def test_a_second_version_is_labelled_by_whose_keys_it_has(tmp_path: Path, changes: str, format: str) -> None:
    text = V2.replace("runtime: vllm\n", "")
    recipe = read(tmp_path, f"{text}command: vllm serve org/model --max-model-len {{max_model_len}}\n{changes}\n")
    assert recipe.format == format


SPLIT = "command: vllm serve org/model -tp {tensor_parallel}"
#: Lines of a recipe, and where it may run with how many nodes at least.
GPUS = [
    (V1, "command: vllm serve org/model -tp 2", ("cluster",), 2),
    (V1, "command: vllm serve org/model --tensor-parallel-size=4\ncluster_only: true", ("cluster",), 4),
    (V2.replace("tensor_parallel: 1", "tensor_parallel: 4"), SPLIT, ("cluster",), 4),
    (V2, "", ("solo", "cluster", "replicas"), 1),
    (V2, "min_nodes: 2\nmax_nodes: 4", ("cluster",), 2),
]


@pytest.mark.parametrize(("text", "lines", "topologies", "least"), GPUS, ids=lambda value: str(value)[-50:])
def test_a_recipe_for_four_gpus_is_not_offered_for_one(
    tmp_path: Path, text: str, lines: str, topologies: tuple[str, ...], least: int
) -> None:
    recipe = read(tmp_path, f"{text}{lines}\n")
    assert (recipe.topologies, recipe.min_nodes) == (topologies, least)
    assert commands(recipe)


def test_the_script_is_one_that_a_shell_takes(tmp_path: Path) -> None:
    recipe = read(tmp_path, f"{V1}command: vllm serve org/model --a \"$A'\\\"`\" --b '$A'\n")
    assert shlex.split(started(recipe).splitlines()[-1])
