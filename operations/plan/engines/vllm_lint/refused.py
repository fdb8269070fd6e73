"""Pairs of words at which `vllm serve` ends before it loads, read in the wheels of 0.17.1 to 0.33.0.

What hangs on the model's configuration is not here: it is not there yet.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from operations.plan.config.refusal import Remark
from operations.plan.engines.vllm_lint import refused_drafts, refused_states
from operations.plan.engines.vllm_lint.pairs import Pair, both, check, refusal
from operations.plan.engines.vllm_lint.said import Said, whole
from operations.plan.recipes.lint.subject import Subject

_CONFIG, _PARALLEL, _SCHEDULER = ("config/vllm.py", "config/parallel.py", "config/scheduler.py")
_DEEPEP = ("deepep_low_latency", "deepep_high_throughput", "nixl_ep")


def refused(of: Subject) -> Iterator[Remark]:
    """Those that a recipe has."""
    yield from check((*PAIRS, *refused_drafts.PAIRS, *refused_states.PAIRS), of)


def _is_cut_unevenly(said: Said) -> bool:
    parts = said.number("decode-context-parallel-size")
    alone = said.number("prefill-context-parallel-size") in (None, 1)
    return bool(parts) and alone and bool(said.tensors % int(parts or 1))


def _is_long_only(said: Said) -> bool:
    """Up to 0.26 the threshold was held against the length where several prompts are read at once alone."""
    several = (said.number("max-num-partial-prefills") or 1) > 1
    return said.less("max-model-len", "long-prefill-token-threshold") and (several or said.of.since("0.27.0"))


PAIRS: tuple[Pair, ...] = (
    refusal(
        lambda said: said.less("max-num-batched-tokens", "max-num-seqs"),
        "max-num-batched-tokens is less than max-num-seqs: each request wants a token of a step",
        "raise the one, or lower the other",
        _SCHEDULER,
    ),
    refusal(
        lambda said: (
            said.switch("enable-chunked-prefill") is False and said.less("max-num-batched-tokens", "max-model-len")
        ),
        "without chunked prefill max-num-batched-tokens has to be max-model-len or more",
        "let it read prompts in chunks (remove no-enable-chunked-prefill), or raise max-num-batched-tokens",
        _SCHEDULER,
    ),
    refusal(
        _is_long_only,
        "long-prefill-token-threshold is more than max-model-len",
        "lower it",
        _SCHEDULER,
    ),
    refusal(
        lambda said: said.less("max-cpu-loras", "max-loras"),
        "max-cpu-loras is less than max-loras",
        "raise it, or remove it",
        "config/lora.py",
    ),
    both("attention-backend", "attention-config", "backend"),
    both("enable-flashinfer-autotune", "kernel-config", "enable_flashinfer_autotune"),
    both("no-enable-flashinfer-autotune", "kernel-config", "enable_flashinfer_autotune"),
    both("cudagraph-capture-sizes", "compilation-config", "cudagraph_capture_sizes"),
    both("max-cudagraph-capture-size", "compilation-config", "max_cudagraph_capture_size"),
    refusal(
        lambda said: said.switch("enable-eplb") is True and not said.switch("enable-expert-parallel"),
        "enable-eplb balances experts that are spread over ranks, and enable-expert-parallel is not on",
        "add enable-expert-parallel, or remove enable-eplb",
        _PARALLEL,
    ),
    refusal(
        lambda said: said.switch("enable-eplb") is True and said.tensors == 1,
        "enable-eplb with one rank to a stage: there is nothing to balance between",
        "remove enable-eplb, or serve it as a cluster",
        _PARALLEL,
    ),
    refusal(
        lambda said: bool(whole(said.part("eplb-config", "num_redundant_experts"))) and not said.switch("enable-eplb"),
        "eplb-config has num_redundant_experts, and enable-eplb is not on",
        "add enable-eplb, or remove it",
        _PARALLEL,
    ),
    refusal(
        _is_cut_unevenly,
        "decode-context-parallel-size does not divide the {tensors} ranks that share each layer",
        "take a number that does, or remove it",
        _PARALLEL,
    ),
    refusal(
        lambda said: said.ranks > 1 and said.of.knobs.executor == "mp" and (said.number("api-server-count") or 1) > 1,
        "api-server-count is more than 1, and the ranks behind the first have no server",
        "remove it in a cluster with executor=mp",
        "entrypoints/cli/serve.py, run_headless",
    ),
    refusal(
        lambda said: (
            said.switch("ray-workers-use-nsight") is True and (said.ranks == 1 or said.of.knobs.executor != "ray")
        ),
        "ray-workers-use-nsight without Ray",
        "remove it",
        _PARALLEL,
    ),
    refusal(
        lambda said: (
            (said.value("numa-bind-nodes") or said.value("numa-bind-cpus")) != "" and not said.switch("numa-bind")
        ),
        "numa-bind-nodes and numa-bind-cpus mean something with numa-bind alone",
        "add numa-bind, or remove them: a GB10 has one node of memory",
        _PARALLEL,
        since="0.20.0",
    ),
    refusal(
        lambda said: (
            (said.switch("enable-dbo") is True or (said.number("ubatch-size") or 0) > 1)
            and said.value("all2all-backend") not in _DEEPEP
        ),
        "enable-dbo works with the all2all backends of DeepEP alone, which a GB10 has not",
        "remove it",
        _CONFIG,
    ),
    refusal(
        lambda said: said.value("dtype") in ("float16", "half") and bool(re.search(r"gemma-?[23](?!\d)", said.repo)),
        "{repo} does not compute in float16",
        "take bfloat16 for dtype",
        "config/model.py, _FLOAT16_NOT_SUPPORTED_MODELS",
    ),
    refusal(
        lambda said: said.stages > 1 and said.switch("enable-return-routed-experts") is True,
        "enable-return-routed-experts does not go with pipeline stages",
        "remove it, or set pipeline_parallel to 1",
        _CONFIG,
        since="0.22.0",
    ),
    refusal(
        lambda said: "qwen3.8-flash" in said.repo and said.stages > 1,
        "{repo} can't be cut into pipeline stages: later ones do not see the words that its tables are asked by",
        "set pipeline_parallel to 1",
        "model_executor/models/config.py, Qwen4Exp",
        since="0.29.0",
    ),
    refusal(
        lambda said: said.switch("enable-auto-tool-choice") is True and said.of.recipe.flag("tool-call-parser") is None,
        "enable-auto-tool-choice wants a tool-call-parser",
        "add the model's tool-call-parser, or remove it",
        "entrypoints, validate_parsed_serve_args",
    ),
)
