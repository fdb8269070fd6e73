"""What a recipe says against the vLLM version that it names: flags and variables that do nothing, or too much.

The table is from the wheels of 16 releases, 0.17.1 to 0.33.0: [G] in docs/sources.md. What is not in it is not judged.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from operations.plan.knobs import Knobs
from operations.plan.recipe import Recipe

Version = tuple[int, ...]


@dataclass(frozen=True)
class Remark:
    """`error`: the deploy stops; else it is shown. `remedy` says what to write instead."""

    error: bool
    problem: str
    remedy: str


@dataclass(frozen=True)
class Life:
    """In which releases a variable exists: from `first` up to and without `gone`; None: still there."""

    first: str
    gone: str | None
    instead: str


_MOE = "the flag moe-backend"
#: Variables that came or went.
VARIABLES = {
    "VLLM_NVFP4_GEMM_BACKEND": Life("0.17.1", "0.24.0", "the flag linear-backend"),
    "VLLM_USE_FLASHINFER_MOE_FP4": Life("0.17.1", "0.24.0", _MOE),
    "VLLM_USE_FLASHINFER_MOE_FP8": Life("0.17.1", "0.24.0", _MOE),
    "VLLM_FLASHINFER_MOE_BACKEND": Life("0.17.1", "0.24.0", _MOE),
    "VLLM_MXFP4_USE_MARLIN": Life("0.17.1", "0.24.0", "the flag moe-backend: marlin"),
    "VLLM_USE_FLASHINFER_MOE_MXFP4_BF16": Life("0.17.1", "0.24.0", _MOE),
    "VLLM_TEST_FORCE_FP8_MARLIN": Life("0.17.1", "0.29.0", "the flag linear-backend"),
    "VLLM_USE_RAY_V2_EXECUTOR_BACKEND": Life("0.20.1", "0.33.0", "nothing: it is the only one since"),
    "VLLM_USE_RAY_WRAPPED_PP_COMM": Life("0.17.1", "0.33.0", "nothing"),
    "VLLM_SLEEP_WHEN_IDLE": Life("0.17.1", "0.18.1", "nothing"),
    "VLLM_MEMORY_PROFILER_ESTIMATE_CUDAGRAPHS": Life("0.18.1", None, "nothing"),
}
#: Variables that people set and no release ever read.
NEVER = {
    "VLLM_NVFP4_MOE_BACKEND": "the flag moe-backend ([E] lost hours to it)",
    "VLLM_MXFP4_BACKEND": "the flag moe-backend; up to 0.23 the variable VLLM_MXFP4_USE_MARLIN",
    "VLLM_ATTENTION_BACKEND": "the flag attention-backend",
    "VLLM_USE_V1": "nothing: there is no other engine",
    "VLLM_USE_RAY_COMPILED_DAG": "nothing",
}
#: Values of VLLM_NVFP4_GEMM_BACKEND and of moe-backend, with the release that brought each.
GEMM_BACKENDS = {
    **dict.fromkeys(("flashinfer-cudnn", "flashinfer-trtllm", "flashinfer-cutlass", "cutlass", "marlin"), "0.17.1"),
    "emulation": "0.20.1",
    "flashinfer-b12x": "0.22.1",
}
MOE_BACKENDS = {
    **dict.fromkeys(("auto", "triton", "deep_gemm", "cutlass", "flashinfer_trtllm", "flashinfer_cutlass"), "0.17.1"),
    **dict.fromkeys(("flashinfer_cutedsl", "marlin", "aiter"), "0.17.1"),
    "flashinfer_b12x": "0.24.0",
    "b12x": "0.33.0",
}
#: Reasoning parsers that are in no release: they come from a plugin file in the model's repository.
PLUGIN_PARSERS = ("super_v3", "nano_v3")


def lint(recipe: Recipe, knobs: Knobs) -> list[Remark]:
    """Every remark on a recipe as it would be run with these knobs."""
    flags = {name.replace("_", "-"): value for name, value in recipe.flags.items()}
    checks = (_variables, _kernels, _backends, _parsers, _memory, _ray)
    return [remark for check in checks for remark in check(recipe, flags, knobs)]


Flags = Mapping[str, object]


def _variables(recipe: Recipe, _flags: Flags, _knobs: Knobs) -> Iterator[Remark]:
    for name in recipe.env:
        if name in NEVER:
            yield Remark(True, f"no vLLM reads `{name}`", f"use {NEVER[name]}")
        elif life := VARIABLES.get(name):
            if life.gone and at(recipe) >= parse(life.gone):
                problem = f"`{name}` is gone since vLLM {life.gone}, the image has {recipe.engine_version}"
                yield Remark(True, problem, f"use {life.instead}")
            elif at(recipe) < parse(life.first):
                problem = f"`{name}` came with vLLM {life.first}, the image has {recipe.engine_version}"
                yield Remark(True, problem, "remove it")


def _kernels(recipe: Recipe, _flags: Flags, _knobs: Knobs) -> Iterator[Remark]:
    for kernel in recipe.env.get("VLLM_DISABLED_KERNELS", "").split(","):
        if kernel != kernel.strip():
            problem = f"VLLM_DISABLED_KERNELS: `{kernel}` has a blank and is ignored: the list is not stripped"
            yield Remark(True, problem, "write the names with a comma alone between them")
        elif kernel == "MarlinFP8ScaledMMLinearKernel" and at(recipe) < parse("0.17.2"):
            yield Remark(False, f"VLLM_DISABLED_KERNELS: {recipe.engine_version} has no {kernel}", "it does no harm")


def _backends(recipe: Recipe, flags: Flags, _knobs: Knobs) -> Iterator[Remark]:
    chosen = (
        ("VLLM_NVFP4_GEMM_BACKEND", recipe.env.get("VLLM_NVFP4_GEMM_BACKEND"), GEMM_BACKENDS),
        ("moe-backend", flags.get("moe-backend"), MOE_BACKENDS),
    )
    for name, value, choices in chosen:
        if value is None:
            continue
        known = [choice for choice, since in choices.items() if at(recipe) >= parse(since)]
        if value not in known:
            yield Remark(True, f"{name}: {recipe.engine_version} knows no `{value}`", f"one of: {', '.join(known)}")


def _parsers(_recipe: Recipe, flags: Flags, _knobs: Knobs) -> Iterator[Remark]:
    parser = flags.get("reasoning-parser")
    if parser in PLUGIN_PARSERS and "reasoning-parser-plugin" not in flags:
        yield Remark(
            True,
            f"reasoning-parser: `{parser}` is in no release: it comes with a plugin file",
            "name the file with reasoning-parser-plugin, or use the built-in nemotron_v3",
        )


def _memory(recipe: Recipe, flags: Flags, _knobs: Knobs) -> Iterator[Remark]:
    if not recipe.needs.gpu:
        return
    share = flags.get("gpu-memory-utilization")
    default = 0.9 if at(recipe) < parse("0.20") else 0.92
    if "kv-cache-memory-bytes" not in flags and (not isinstance(share, float) or share > 0.85):
        problem = f"gpu-memory-utilization is {share if share is not None else f'{default} (the default)'}"
        yield Remark(
            False, f"{problem}: on unified memory what is above 0.85 freezes the node", "set it to 0.85 or less"
        )
    if "speculative-config" in flags and "kv-cache-memory-bytes" not in flags:
        yield Remark(
            False,
            "with speculative decoding the CUDA-graph estimate comes out negative, and the KV cache too large",
            "pin kv-cache-memory-bytes ([B]; vLLM #44740, #46932)",
        )


def _ray(recipe: Recipe, _flags: Flags, knobs: Knobs) -> Iterator[Remark]:
    stock = recipe.image.startswith("vllm/vllm-openai")
    if stock and knobs.topology == "cluster" and knobs.executor == "ray" and at(recipe) >= parse("0.18.1"):
        problem = f"executor=ray: vLLM's own images have no Ray since 0.18, this one is {recipe.engine_version}"
        yield Remark(True, problem, "set executor to mp, or use an image with Ray in it")


def at(recipe: Recipe) -> Version:
    """The recipe's vLLM version, to compare."""
    return parse(recipe.engine_version)


def parse(version: str) -> Version:
    """`0.17.1` as numbers."""
    return tuple(int(part) for part in version.split("."))
