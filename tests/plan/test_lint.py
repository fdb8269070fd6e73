"""Flags and variables that do nothing in the version that a recipe names are found before anything is started."""

from __future__ import annotations

from typing import Any

import pytest

from operations.plan.formats import FOLDER, load_recipe
from operations.plan.lint import lint
from tests.plan.samples import knobs

MARLIN = load_recipe("nemotron-3-super-nvfp4-marlin")


def remarks(*, error: bool, data: dict[str, Any] | None = None, **changes: Any) -> list[str]:
    if "flags" in changes:
        changes["flags"] = tuple(made for name, value in changes["flags"].items() if (made := flag(name, value)))
    recipe = MARLIN.model_copy(update=changes)
    return [f"{each.problem} -> {each.remedy}" for each in lint(recipe, knobs(**(data or {}))) if each.error == error]


@pytest.mark.parametrize("file", sorted(FOLDER.glob("*.yaml")), ids=lambda path: path.stem)
def test_every_recipe_passes(file: Any) -> None:
    recipe = load_recipe(file.stem)
    for topology in recipe.topologies:
        assert lint(recipe, knobs(topology=topology)) == []


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        # [E]: a variable that no version has.
        (
            {"env": {"VLLM_NVFP4_MOE_BACKEND": "marlin"}},
            "no vLLM reads `VLLM_NVFP4_MOE_BACKEND` -> use the flag moe-backend",
        ),
        # [A], [C] and [E] on an image of today.
        (
            {"engine_version": "0.24.0", "env": {"VLLM_NVFP4_GEMM_BACKEND": "marlin"}},
            "`VLLM_NVFP4_GEMM_BACKEND` is gone since vLLM 0.24.0, the image has 0.24.0 -> use the flag linear-backend",
        ),
        ({"env": {"VLLM_MEMORY_PROFILER_ESTIMATE_CUDAGRAPHS": "1"}}, "came with vLLM 0.18.1, the image has 0.17.1"),
        # [B] on a stock 0.20.1.
        (
            {"engine_version": "0.20.1", "env": {"VLLM_NVFP4_GEMM_BACKEND": "flashinfer-b12x"}},
            "VLLM_NVFP4_GEMM_BACKEND: 0.20.1 knows no `flashinfer-b12x`",
        ),
        ({"flags": {"moe-backend": "flashinfer_b12x"}}, "moe-backend: 0.17.1 knows no `flashinfer_b12x`"),
        ({"flags": {"moe_backend": "marlinn"}}, "moe-backend: 0.17.1 knows no `marlinn`"),
        ({"env": {"VLLM_DISABLED_KERNELS": "A, B"}}, "` B` has a blank and is ignored"),
        ({"flags": {"reasoning-parser": "super_v3"}}, "`super_v3` is in no release"),
    ],
    ids=lambda value: str(value)[:50],
)
def test_an_error_is_named_with_what_to_write_instead(changes: dict[str, Any], said: str) -> None:
    assert any(said in remark for remark in remarks(error=True, **changes))


def test_a_plugin_parser_with_its_file_is_fine() -> None:
    flags = {"reasoning-parser": "super_v3", "reasoning-parser-plugin": "/app/super_v3_reasoning_parser.py"}
    assert remarks(error=True, flags=flags) == []


def test_ray_is_not_in_the_images_of_today() -> None:
    said = remarks(error=True, engine_version="0.22.1", env={}, data={"topology": "cluster", "executor": "ray"})
    assert any("no Ray since 0.18" in remark for remark in said)
    assert not remarks(error=True, engine_version="0.22.1", env={}, data={"topology": "cluster", "executor": "mp"})
    assert not remarks(error=True, engine_version="0.22.1", env={}, data={"topology": "replicas"})


@pytest.mark.parametrize(
    ("flags", "said"),
    [
        ({}, "gpu-memory-utilization is 0.9 (the default)"),
        ({"gpu-memory-utilization": 0.9}, "freezes the node"),
        ({"gpu-memory-utilization": 0.8, "speculative-config": {"method": "mtp"}}, "comes out negative"),
    ],
)
def test_a_warning_is_shown(flags: dict[str, Any], said: str) -> None:
    assert any(said in remark for remark in remarks(error=False, flags=flags))


def test_pinned_kv_bytes_need_no_share() -> None:
    assert remarks(error=False, flags={"kv-cache-memory-bytes": "20G", "speculative-config": {"method": "mtp"}}) == []
