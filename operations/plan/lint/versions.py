"""What came and went between vLLM 0.17.1 and 0.33.0, from the wheels of 16 releases: [G] in docs/sources.md."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from operations.plan.lint.subject import Subject
from operations.plan.refusal import Remark


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


def variables(of: Subject) -> Iterator[Remark]:
    """Variables that no release reads, not yet, or no more."""
    for name in of.recipe.env:
        if name in (of.vocabulary.get("environment") or {}):
            continue
        if name in NEVER:
            yield Remark(True, f"no vLLM reads `{name}`", f"use {NEVER[name]}")
        elif life := VARIABLES.get(name):
            if life.gone and of.since(life.gone):
                problem = f"`{name}` is gone since vLLM {life.gone}, the image has {of.version}"
                yield Remark(True, problem, f"use {life.instead}")
            elif of.before(life.first):
                problem = f"`{name}` came with vLLM {life.first}, the image has {of.version}"
                yield Remark(True, problem, "remove it")


def backends(of: Subject) -> Iterator[Remark]:
    """Values that a release does not know, where no vocabulary says it."""
    if not of.version or of.vocabulary:
        return
    chosen = (
        ("VLLM_NVFP4_GEMM_BACKEND", of.recipe.env.get("VLLM_NVFP4_GEMM_BACKEND"), GEMM_BACKENDS),
        ("moe-backend", of.recipe.flag("moe-backend"), MOE_BACKENDS),
    )
    for name, value, choices in chosen:
        known = [choice for choice, since in choices.items() if of.since(since)]
        if value is not None and str(value).replace("-", "_") not in [each.replace("-", "_") for each in known]:
            yield Remark(True, f"{name}: vLLM {of.version} knows no `{value}`", f"one of: {', '.join(known)}")
