"""Flags and variables that do nothing in the version that a recipe names are found before anything is started."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from operations.plan.engines import ENGINES, kept
from operations.plan.engines.vllm_flags import SEVERAL
from operations.plan.recipes.formats import FOLDER, load_recipe
from operations.plan.recipes.judge import lint
from operations.plan.recipes.lint.subject import parse, releases, shipped
from operations.plan.recipes.recipe import flag
from tests.plan.samples import knobs

MARLIN = load_recipe("nemotron-3-super-nvfp4-marlin")
#: What is said of shipped recipes all the same: the plan has an answer to it, or the doctor.
KNOWN = ("the plan keeps it for one start alone", "was seen never to hit", "is divided by parallel")


def remarks(*, error: bool, data: Any | None = None, **changes: Any) -> list[str]:
    if "flags" in changes:
        changes["flags"] = tuple(made for name, value in changes["flags"].items() if (made := flag(name, value)))
    recipe = MARLIN.model_copy(update=changes)
    return [f"{each.problem} -> {each.remedy}" for each in lint(recipe, knobs(**(data or {}))) if each.error == error]


@pytest.mark.parametrize("file", sorted(FOLDER.glob("*.yaml")), ids=lambda path: path.stem)
def test_every_recipe_passes_against_its_image_s_release(file: Path) -> None:
    recipe = load_recipe(file.stem)
    assert recipe.engine != "vllm" or shipped(recipe), "no vocabulary of this release is shipped"
    for topology in recipe.topologies:
        by_ray = lint(recipe, knobs(topology=topology, executor="ray"))
        executor = "mp" if any("no Ray" in str(each) for each in by_ray) else "ray"
        count = max(2, recipe.min_nodes)
        found = lint(recipe, knobs(topology=topology, executor=executor), nodes=count)
        assert [each for each in found if each.error or not any(known in each.problem for known in KNOWN)] == []


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        # [B] on a stock 0.20.1.
        (
            {"engine_version": "0.20.1", "env": {"VLLM_NVFP4_GEMM_BACKEND": "flashinfer-b12x"}},
            "VLLM_NVFP4_GEMM_BACKEND: vLLM 0.20.1 knows no `flashinfer-b12x`",
        ),
        # Of a release that is not shipped, what those before and behind it say.
        (
            {"engine_version": "0.20.3", "env": {"VLLM_NVFP4_GEMM_BACKEND": "flashinfer-b12"}},
            "VLLM_NVFP4_GEMM_BACKEND: no vLLM from 0.20.2 to 0.21.0 knows `flashinfer-b12`",
        ),
        ({"flags": {"moe-backend": "flashinfer_b12x"}}, "moe-backend: vLLM 0.17.1 knows no `flashinfer_b12x`"),
        ({"flags": {"moe_backend": "marlinn"}}, "knows no `marlinn` -> did you mean `marlin`?"),
        ({"flags": {"max-model-lenght": 4096}}, "no flag `--max-model-lenght` -> did you mean `max-model-len`?"),
        ({"flags": {"linear-backend": "marlin"}}, "no flag `--linear-backend` -> it came later: vLLM 0.22.0 has it"),
        (
            {"engine_version": "0.32.0", "env": {}, "flags": {"swap-space": 4}},
            "no flag `--swap-space` -> it is gone: vLLM 0.1",
        ),
        ({"flags": {"kv-cache-dtype": "fp9"}}, "kv-cache-dtype: vLLM 0.17.1 knows no `fp9`"),
        ({"flags": {"tool-call-parser": "gemma4"}}, "tool-call-parser: vLLM 0.17.1 has no `gemma4`"),
        ({"flags": {"reasoning-parser": "nemotron"}}, "has no `nemotron` -> did you mean `nemotron_v3`?"),
        ({"env": {"VLLM_DISABLED_KERNELS": "A, B"}}, "` B` has a blank and is ignored"),
        ({"flags": {"reasoning-parser": "super_v3"}}, "`super_v3` is in no release"),
        ({"flags": {"enforce-eager": True}}, "enforce-eager crashes this model"),
        (
            {"flags": {"enable-prefix-caching": True, "max-num-batched-tokens": 2048}},
            "max-num-batched-tokens is 2048, the Mamba block of this hybrid has 2096 tokens",
        ),
        ({"flags": {"kv-cache-memory-bytes": "64G"}}, "GiB of KV cache on each node do not fit a GB10"),
        ({"flags": {"gpu-memory-utilization": 0.5}}, "leaves no KV cache beside 70 GiB of weights"),
    ],
    ids=lambda value: str(value)[:50],
)
def test_an_error_is_named_with_what_to_write_instead(changes: Any, said: str) -> None:
    data = {"topology": "solo"}
    assert any(said in remark for remark in remarks(error=True, data=data, **changes)), remarks(error=True, **changes)


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        # [E]: a variable that no version has.
        (
            {"env": {"VLLM_NVFP4_MOE_BACKEND": "marlin"}},
            "vLLM 0.17.1 reads no `VLLM_NVFP4_MOE_BACKEND` -> use the flag moe-backend",
        ),
        # [A], [C] and [E] on an image of today.
        (
            {"engine_version": "0.24.0", "env": {"VLLM_NVFP4_GEMM_BACKEND": "marlin"}},
            "`VLLM_NVFP4_GEMM_BACKEND` is gone since vLLM 0.24.0, the image has 0.24.0 -> use the flag linear-backend",
        ),
        (
            {"engine_version": "0.27.1", "env": {"VLLM_NVFP4_GEMM_BACKEND": "marlin"}},
            "`VLLM_NVFP4_GEMM_BACKEND` is gone since vLLM 0.24.0, the image has 0.27.1 -> use the flag linear-backend",
        ),
        ({"env": {"VLLM_MEMORY_PROFILER_ESTIMATE_CUDAGRAPHS": "1"}}, "came with vLLM 0.18.0, the image has 0.17.1"),
        ({"env": {"VLLM_ALLOW_LONG_MAX_MODEL_LENGTH": "1"}}, "did you mean `VLLM_ALLOW_LONG_MAX_MODEL_LEN`?"),
    ],
    ids=lambda value: str(value)[:50],
)
def test_a_variable_that_nobody_reads_is_told_and_stops_nothing_unless_vllm_is_told_to(changes: Any, said: str) -> None:
    assert any(said in remark for remark in remarks(error=False, **changes))
    assert not any("VLLM_" in remark for remark in remarks(error=True, **changes))
    strict = {"flags": {"fail-on-environ-validation": True}} | changes
    assert any(said in remark for remark in remarks(error=True, **strict))


@pytest.mark.parametrize(("gib", "takes_more"), [(40, True), (49, True), (50, False)])
def test_a_share_is_held_against_weights_and_a_pinned_kv_cache(gib: int, takes_more: bool) -> None:
    takes = "30 GiB of weights and 16 GiB of KV cache take more"
    said = f"gpu-memory-utilization {gib / 119:.3f} is {gib} GiB of a GB10, and {takes}"
    flags = {"gpu-memory-utilization": f"{gib / 119:.3f}", "kv-cache-memory-bytes": "16G"}
    model = MARLIN.model.model_copy(update={"weights_gib": 30.0})
    told = remarks(error=False, data={"topology": "solo"}, flags=flags, model=model)
    assert any(each.startswith(said) for each in told) == takes_more
    # A pinned cache is taken whatever the share: a start does not fail by it.
    assert not any("GiB" in each for each in remarks(error=True, data={"topology": "solo"}, flags=flags, model=model))


def test_half_of_the_weights_fit_where_the_whole_does_not() -> None:
    model = MARLIN.model.model_copy(update={"weights_gib": 150.0})
    too_large = "do not fit a GB10"
    assert any(too_large in each for each in remarks(error=True, data={"topology": "solo"}, model=model))
    assert not any(too_large in each for each in remarks(error=True, data={"topology": "cluster"}, model=model))


def test_a_draft_layer_that_the_checkpoint_lacks_is_an_error() -> None:
    flags = {"speculative-config": {"method": "mtp"}, "kv-cache-memory-bytes": "20G"}
    without = MARLIN.model.model_copy(update={"mtp": False})
    assert any("has no layer for it" in each for each in remarks(error=True, flags=flags, model=without))
    assert remarks(error=True, flags=flags) == []


def test_what_the_model_s_own_configuration_says_comes_first() -> None:
    made = flag("speculative-config", {"method": "mtp"})
    assert made
    recipe = MARLIN.model_copy(update={"flags": (made,)})
    assert any("has no layer for it" in str(each) for each in lint(recipe, knobs(), mtp=False))


def test_a_plugin_parser_with_its_file_is_fine() -> None:
    flags = {"reasoning-parser": "super_v3", "reasoning-parser-plugin": "/app/super_v3_reasoning_parser.py"}
    assert remarks(error=True, flags=flags) == []


def test_the_image_itself_has_the_last_word() -> None:
    """A fork may read what no release does, and lack what every release has."""
    release: Any = shipped(MARLIN)
    fork = release | {
        "environment": {**release["environment"], "VLLM_NVFP4_MOE_BACKEND": None},
        "flags": {name: each for name, each in release["flags"].items() if name != "moe-backend"},
    }
    recipe = MARLIN.model_copy(update={"env": {"VLLM_NVFP4_MOE_BACKEND": "marlin"}})
    said = [str(each) for each in lint(recipe, knobs(), image=fork)]
    assert not any("VLLM_NVFP4_MOE_BACKEND" in each for each in said)
    assert any("vLLM 0.17.1 (the image) has no flag `--moe-backend`" in each for each in said)


def test_ray_is_not_in_the_images_of_today() -> None:
    today = {"engine_version": "0.22.1", "env": {}, "flags": {"gpu-memory-utilization": 0.8}}
    said = remarks(error=True, **today, data={"topology": "cluster", "executor": "ray"})
    assert any("no Ray in this image" in remark for remark in said)
    assert not remarks(error=True, **today, data={"topology": "cluster", "executor": "mp"})
    assert not remarks(error=True, **today, data={"topology": "replicas"})


def test_an_image_that_says_it_has_no_ray_is_believed() -> None:
    told = shipped(MARLIN) | {"ray": False}
    assert any("no Ray in this image" in str(each) for each in lint(MARLIN, knobs(executor="ray"), image=told))
    assert not any("no Ray" in str(each) for each in lint(MARLIN, knobs(executor="ray"), image=told | {"ray": True}))


def test_tensorrt_llm_is_refused_in_a_cluster() -> None:
    recipe = load_recipe("nemotron-3-super-nvfp4-trtllm")
    said = [str(each) for each in lint(recipe, knobs(topology="cluster")) if each.error]
    assert any("tensorrt-llm does not run in topology=cluster here" in each for each in said)


def test_tensorrt_llm_s_flags_are_known() -> None:
    recipe = load_recipe("nemotron-3-super-nvfp4-trtllm")
    made = flag("max_batchsize", 8)
    assert made
    said = lint(recipe.model_copy(update={"flags": (made,)}), knobs(topology="solo"))
    assert any("did you mean `max-batch-size`?" in str(each) for each in said)


@pytest.mark.parametrize(
    ("flags", "said"),
    [
        ({}, "gpu-memory-utilization is 0.9 (the default)"),
        ({"gpu-memory-utilization": 0.9}, "freezes the node"),
        ({"gpu-memory-utilization": 0.8, "speculative-config": {"method": "mtp"}}, "comes out negative"),
        ({"speculative-config": {"method": "ngram"}}, "cost a quarter of the speed on prose"),
    ],
)
def test_a_warning_is_shown(flags: Any, said: str) -> None:
    assert any(said in remark for remark in remarks(error=False, flags=flags))


@pytest.mark.parametrize(
    ("env", "is_told"),
    [
        ({"VLLM_CACHE_ROOT": "/cache/huggingface/vllm"}, True),
        ({"FLASHINFER_WORKSPACE_BASE": "/tmp"}, True),
        ({"FLASHINFER_WORKSPACE_BASE": "/root"}, False),
        ({"TRITON_CACHE_DIR": "/root/.cache/triton"}, False),
        ({"XDG_CACHE_HOME": "/root/.cache/"}, False),
        ({"HF_HOME": "/models"}, False),
    ],
)
def test_a_folder_of_compiled_code_that_goes_with_the_container_is_told(env: Any, is_told: bool) -> None:
    assert any("goes with the container" in remark for remark in remarks(error=False, env=env)) is is_told


@pytest.mark.parametrize(
    ("engine", "name", "is_told"),
    [
        ("llama-cpp", "XDG_CACHE_HOME", False),
        ("llama-cpp", "CUDA_CACHE_PATH", True),
        ("tensorrt-llm", "VLLM_CACHE_ROOT", False),
        ("tensorrt-llm", "TRITON_CACHE_DIR", True),
        ("sglang", "DG_JIT_CACHE_DIR", True),
    ],
)
def test_such_a_folder_is_told_where_the_engine_has_it(engine: str, name: str, is_told: bool) -> None:
    recipe = MARLIN.model_copy(update={"env": {name: "/tmp/c"}})
    assert bool(list(kept.lost(recipe, ENGINES[engine].CACHES))) is is_told


def test_a_kernel_that_is_no_class_is_a_warning_with_the_nearest_name() -> None:
    env = {"VLLM_DISABLED_KERNELS": "CutlassFP8ScaledMMLinearKernels"}
    assert any("did you mean `CutlassFP8ScaledMMLinearKernel`?" in each for each in remarks(error=False, env=env))


def test_pinned_kv_bytes_need_no_estimate() -> None:
    flags = {"kv-cache-memory-bytes": "20G", "speculative-config": {"method": "mtp"}, "gpu-memory-utilization": 0.82}
    assert remarks(error=False, flags=flags) == []


@pytest.mark.parametrize(
    ("version", "numbers"),
    [("0.17.1", (0, 17, 1)), ("0.17.2rc1.dev0", (0, 17, 2)), ("1.3.0rc9", (1, 3, 0)), ("0.1.dev19754+g3a", (0, 1))],
)
def test_versions_are_compared_by_their_numbers(version: str, numbers: tuple[int, ...]) -> None:
    assert parse(version) == numbers


def test_the_flags_that_take_several_words_are_those_of_all_releases() -> None:
    every = {
        name for each in releases("vllm").values() for name, facts in (each["flags"] or {}).items() if "many" in facts
    }
    assert set(SEVERAL) == every - {"api-key", "served-model-name", "lora-modules"}
