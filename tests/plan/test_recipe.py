"""The loader is strict: whatever it does not understand, it names."""

from __future__ import annotations

from pathlib import Path

import pytest

from operations.plan.cluster import environment
from operations.plan.config.refusal import Refusal
from operations.plan.recipes.formats import FOLDER, load_file, load_recipe
from operations.plan.recipes.judge import lint
from operations.plan.recipes.lint.subject import parse
from operations.plan.recipes.recipe import OWNED_ENV, Recipe
from tests.lab import model
from tests.plan.samples import knobs, nodes

FILES = sorted(FOLDER.glob("*.yaml"))
GOOD = (FOLDER / "lab-tiny-llama.yaml").read_text()


def loaded(tmp_path: Path, text: str) -> Recipe:
    file = tmp_path / "recipe.yaml"
    file.write_text(text)
    return load_recipe(str(file))


@pytest.mark.parametrize("file", FILES, ids=lambda file: file.stem)
def test_every_recipe_loads_under_its_own_name(file: Path) -> None:
    assert load_recipe(file.stem).name == file.stem


def test_the_lab_s_recipe_names_the_model_that_the_lab_makes() -> None:
    assert load_recipe("lab-tiny-llama").model.revision == model.own_hash()


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        (
            "served_name: tiny-llama",
            "served_names: tiny-llama",
            ["unknown key `served_names`", "`served_name` is missing"],
        ),
        ("engine: vllm", "engine: ollama", ["engine: Input should be 'vllm'"]),
        ("topologies: [solo, cluster, replicas]", "topologies: [duo]", ["topologies.0"]),
        ("revision: ", "revision: main-", ["model.revision"]),
        ("revision: ", "revision: 1234567890123456789012345678901234567890 #", ["reads it as a number: quote it"]),
        ("repo: tandem-lab/tiny-llama", "repo: tiny-llama", ["model.repo"]),
        ('OMP_NUM_THREADS: "1"', "OMP_NUM_THREADS: 1", ["`OMP_NUM_THREADS` is 1: quote it"]),
        (
            'OMP_NUM_THREADS: "1"',
            "VLLM_HOST_IP: 10.0.0.1",
            ["`VLLM_HOST_IP` is set by the plan, for each node; remove it"],
        ),
        ('OMP_NUM_THREADS: "1"', 'NCCL_IB_DISABLE: "true"', ["`NCCL_IB_DISABLE` is 'true': expected '1' for TCP"]),
        ('OMP_NUM_THREADS: "1"', "RAY_AUTH_MODE: disabled", ["`RAY_AUTH_MODE` is set by the plan"]),
        ('OMP_NUM_THREADS: "1"', "RAY_AUTH_TOKEN_PATH: /x", ["`RAY_AUTH_TOKEN_PATH` is set by the plan"]),
        ("max-num-seqs: 8", "tensor-parallel-size: 2", ["`tensor-parallel-size` is not a recipe's"]),
        ("max-num-seqs: 8", "tensor_parallel_size: 2", ["`tensor_parallel_size` is not a recipe's"]),
        ("max-num-seqs: 8", "pipeline-parallel-size: 2", ["is not a recipe's: the knob `pipeline_parallel` says it"]),
        ("load_minutes: 4", "load_minutes: 4\npipeline_parallel: 0", ["pipeline_parallel: Input should be greater"]),
        ("max-num-seqs: 8", "--max-num-seqs: 8", ["without the leading dashes"]),
        ("load_minutes: 4", "load_minutes: 0", ["load_minutes"]),
        ("load_minutes: 4", "load_minutes: 4\nload_minutes: 5", ["`load_minutes` in line 21 is given twice"]),
        ("needs:", "needs: [", ["is not YAML"]),
    ],
    ids=lambda value: str(value)[:40],
)
def test_a_fault_is_named(tmp_path: Path, old: str, new: str, said: list[str]) -> None:
    assert old in GOOD
    with pytest.raises(Refusal) as refused:
        loaded(tmp_path, GOOD.replace(old, new))
    for words in said:
        assert words in str(refused.value)


def test_a_recipe_may_say_for_how_many_stages_it_was_written(tmp_path: Path) -> None:
    assert loaded(tmp_path, GOOD).pipeline_parallel == 1
    assert loaded(tmp_path, GOOD + "\npipeline_parallel: 3\n").pipeline_parallel == 3


def test_a_recipe_that_is_no_mapping_is_refused(tmp_path: Path) -> None:
    with pytest.raises(Refusal, match="is not a recipe"):
        loaded(tmp_path, "- a\n- b\n")


def test_a_recipe_that_does_not_exist_is_refused_with_the_nearest_name() -> None:
    with pytest.raises(Refusal, match="did you mean `lab-tiny-llama`"):
        load_recipe("lab-tiny-lama")


def test_flags_become_words_in_their_order(tmp_path: Path) -> None:
    text = GOOD[: GOOD.index("flags:")] + (
        "flags:\n"
        "  trust-remote-code: true\n"
        "  enforce-eager: false\n"
        "  max-model-len: 1024\n"
        "  speculative-config: {method: mtp, num_speculative_tokens: 3}\n"
    )
    assert loaded(tmp_path, text).flag_argv == [
        "--trust-remote-code",
        "--max-model-len",
        "1024",
        "--speculative-config",
        '{"method":"mtp","num_speculative_tokens":3}',
    ]


@pytest.mark.parametrize("name", ["tp_size", "host", "extra_llm_api_options"])
def test_what_the_plan_says_of_tensorrt_llm_is_no_recipe_s(tmp_path: Path, name: str) -> None:
    text = (FOLDER / "nemotron-3-super-nvfp4-trtllm.yaml").read_text()
    with pytest.raises(Refusal, match=f"`{name}` is not a recipe's"):
        loaded(tmp_path, text.replace("  max_batch_size: 8\n  max_num", f"  {name}: 1\n  max_num"))


def test_a_pattern_that_is_none_is_refused(tmp_path: Path) -> None:
    with pytest.raises(Refusal, match="is not a regular expression"):
        loaded(tmp_path, GOOD.replace("proof:", "proof:\n  expect: ['(']"))


def test_a_recipe_s_name_is_its_file_s(tmp_path: Path) -> None:
    (tmp_path / "recipes").mkdir()
    (tmp_path / "recipes/other.yaml").write_text(GOOD)
    with pytest.raises(Refusal, match="a recipe is found by its file's name"):
        load_recipe("other", tmp_path / "recipes")


def test_what_keeps_others_out_of_ray_is_the_plan_s_alone() -> None:
    of = knobs()
    head, worker = nodes(2, of)
    ours = environment.ray_environment(worker, head, of) | environment.rank_environment(worker, (head, worker))
    # What a recipe may have its own opinion of: it changes how fast or how talkative the ranks are.
    harmless = {"NCCL_IGNORE_CPU_AFFINITY", "NCCL_IB_DISABLE", "RAY_memory_monitor_refresh_ms", "RAY_DEDUP_LOGS"}
    harmless |= {"RAY_num_prestart_python_workers", "RAY_USAGE_STATS_ENABLED"}
    assert ours.keys() - set(OWNED_ENV) == harmless


@pytest.mark.parametrize("file", FILES, ids=lambda file: file.stem)
def test_no_recipe_reuses_prefixes_where_sglang_stores_a_wrong_state(file: Path) -> None:
    """SGLang #37817, with DFLASH on a hybrid, before 0.5.21."""
    recipe = load_file(file)
    drafts = str(recipe.flag("speculative-algorithm")).upper() == "DFLASH"
    if recipe.engine == "sglang" and drafts and parse(recipe.engine_version or "") < parse("0.5.21"):
        assert recipe.flag("disable-radix-cache") is True and "#37818" in " ".join(recipe.known)
        assert recipe.flag("mamba-radix-cache-strategy") is None
        assert lint(recipe, knobs(topology="solo")) == []


@pytest.mark.parametrize("file", FILES, ids=lambda file: file.stem)
def test_a_recipe_fixes_a_loader_only_where_its_image_was_seen_to_have_it(file: Path) -> None:
    # Its source has the flag with this image.
    seen = ("qwen3.6-35b-a3b-nvfp4-mtp",)
    assert load_file(file).flag("load-format") in (None, "auto") or file.stem in seen
