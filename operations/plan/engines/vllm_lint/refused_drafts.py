"""Words about speculative decoding at which `vllm serve` ends before it loads (wheels of 0.17.1 to 0.33.0)."""

from __future__ import annotations

from operations.plan.engines.vllm_lint.pairs import Pair, both, refusal
from operations.plan.engines.vllm_lint.said import Said

_CONFIG, _SPECULATIVE = "config/vllm.py", "config/speculative.py"
#: Ways of drafting that the second model runner lacks, and those that go with no scheduling ahead.
_FIRST_RUNNER = ("ngram", "[ngram]", "ngram_gpu", "suffix", "medusa", "mlp_speculator", "custom_class")
_NO_ASYNC = ("ngram", "[ngram]", "suffix", "medusa", "mlp_speculator")


def _is_batch_small(said: Said) -> bool:
    batched, requests = said.number("max-num-batched-tokens"), said.number("max-num-seqs")
    if not said.adapters or not said.drafts or batched is None or requests is None:
        return False
    return batched < requests * ((said.drafted("num_speculative_tokens") or 0) + 1)


def _looks_up_nothing(said: Said) -> bool:
    low, high = said.drafted("prompt_lookup_min"), said.drafted("prompt_lookup_max")
    return low is not None and high is not None and low > high


def _drafts_none(said: Said) -> bool:
    tokens = said.drafted("num_speculative_tokens")
    return tokens is not None and tokens < 1


PAIRS: tuple[Pair, ...] = (
    refusal(
        _is_batch_small,
        "max-num-batched-tokens is less than max-num-seqs x (num_speculative_tokens + 1), which LoRA wants",
        "raise max-num-batched-tokens, or draft fewer tokens",
        "engine/arg_utils.py",
    ),
    both("spec-method", "speculative-config", "method"),
    both("spec-model", "speculative-config", "model"),
    both("spec-tokens", "speculative-config", "num_speculative_tokens"),
    refusal(
        lambda said: said.switch("use-replayssm") is True and bool(said.drafts),
        "use-replayssm does not go with speculative decoding",
        "remove one of them",
        _CONFIG,
        since="0.27.0",
        before="0.29.0",
    ),
    refusal(
        lambda said: said.switch("async-scheduling") is True and said.method in _NO_ASYNC,
        "async-scheduling does not go with drafts by {method}",
        "remove async-scheduling",
        _CONFIG,
        before="0.33.0",
    ),
    refusal(
        lambda said: (
            said.switch("async-scheduling") is True and said.drafts.get("disable_padded_drafter_batch") is True
        ),
        "async-scheduling does not go with disable_padded_drafter_batch",
        "remove one of them",
        _CONFIG,
        before="0.33.0",
    ),
    refusal(
        _drafts_none,
        "num_speculative_tokens is less than 1",
        "draft one or more, or remove the speculative configuration",
        _SPECULATIVE,
    ),
    refusal(
        lambda said: "tensor_parallel_size" in said.drafts,
        "the speculative configuration has tensor_parallel_size, which it does not take",
        "call it draft_tensor_parallel_size, or remove it",
        _SPECULATIVE,
    ),
    refusal(
        lambda said: said.drafted("draft_tensor_parallel_size") not in (None, 1, said.tensors),
        "draft_tensor_parallel_size is neither 1 nor the {tensors} of the model",
        "remove it",
        _SPECULATIVE,
    ),
    refusal(
        _looks_up_nothing,
        "prompt_lookup_min is more than prompt_lookup_max",
        "lower the one, or raise the other",
        _SPECULATIVE,
    ),
    refusal(
        lambda said: said.env("VLLM_USE_V2_MODEL_RUNNER") == "1" and said.method in _FIRST_RUNNER,
        "VLLM_USE_V2_MODEL_RUNNER is 1, and the second runner has no drafts by {method}",
        "remove the variable",
        _CONFIG,
        since="0.23.0",
    ),
    refusal(
        lambda said: said.env("VLLM_USE_V2_MODEL_RUNNER") == "0" and said.method == "dspark",
        "VLLM_USE_V2_MODEL_RUNNER is 0, and only the second runner has drafts by dspark",
        "remove the variable",
        _CONFIG,
        since="0.29.0",
    ),
    refusal(
        lambda said: (
            said.env("VLLM_USE_V2_MODEL_RUNNER") == "0" and said.stages > 1 and said.switch("async-scheduling") is True
        ),
        "the first runner does not go with async-scheduling over {stages} pipeline stages",
        "remove VLLM_USE_V2_MODEL_RUNNER, or async-scheduling",
        _CONFIG,
        since="0.31.0",
    ),
    refusal(
        lambda said: said.value("per-request-spec-decode-metrics") not in ("", "none") and not said.drafts,
        "per-request-spec-decode-metrics without speculative decoding",
        "remove it",
        _CONFIG,
        since="0.29.0",
    ),
    refusal(
        lambda said: said.switch("kv-sharing-fast-prefill") is True and said.method in ("eagle", "eagle3", "mtp"),
        "kv-sharing-fast-prefill gives wrong logits of the prompt, which drafts by {method} want",
        "remove kv-sharing-fast-prefill",
        _CONFIG,
    ),
    refusal(
        lambda said: "qwen3.8-flash" in said.repo and said.method not in ("", "mtp", "ngram", "ngram_gpu"),
        "{repo} drafts by its own MTP layer or by n-grams alone, not by {method}",
        "take method mtp",
        "model_executor/models/config.py, Qwen4Exp",
        since="0.29.0",
    ),
)
