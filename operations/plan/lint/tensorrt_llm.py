"""TensorRT-LLM's flags and options: its image can't be asked without a GPU, so a table of its names stands here.

Source: [C] in docs/sources.md, and the options of `trtllm-serve` in 1.3.
"""

from __future__ import annotations

from collections.abc import Iterator

from operations.plan.lint.subject import Subject
from operations.plan.refusal import Remark, nearest

FLAGS = (
    *("backend", "tokenizer", "custom-tokenizer", "max-beam-width", "max-batch-size", "max-num-tokens", "max-seq-len"),
    *("kv-cache-free-gpu-memory-fraction", "free-gpu-memory-fraction", "num-postprocess-workers", "revision"),
    *("trust-remote-code", "reasoning-parser", "tool-parser", "metadata-server-config-file", "server-role"),
    *("fail-fast-on-attention-window-too-large", "log-level", "media-io-kwargs", "chat-template"),
    *("otlp-traces-endpoint", "enable-chunked-prefill", "disagg-cluster-uri", "no-telemetry", "telemetry"),
)


def names(of: Subject) -> Iterator[Remark]:
    """Flags that `trtllm-serve` does not have."""
    for each in of.recipe.flags:
        if each.name not in FLAGS:
            yield Remark(
                True, f"trtllm-serve has no flag `{each.words[0]}`", nearest(each.name, FLAGS, "say it in `config`")
            )


def memory(of: Subject) -> Iterator[Remark]:
    """The share is of what is free after the weights: 0.9 of it is much on unified memory ([C] against [F])."""
    cache = (of.recipe.config or {}).get("kv_cache_config") or {}
    share = cache.get("free_gpu_memory_fraction") if isinstance(cache, dict) else None
    if isinstance(share, int | float) and share > 0.9:
        yield Remark(False, f"free_gpu_memory_fraction is {share:g}", "0.9 or less leaves the system room")
