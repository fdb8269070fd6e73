"""Words about what is kept of a prompt at which `vllm serve` ends before it loads (wheels of 0.17.1 to 0.33.0)."""

from __future__ import annotations

import re

from operations.plan.engines.vllm_lint.pairs import Pair, refusal

_CONFIG = "config/vllm.py"

PAIRS: tuple[Pair, ...] = (
    refusal(
        lambda said: (
            "expandable_segments:true" in said.env("PYTORCH_CUDA_ALLOC_CONF").lower()
            and bool(said.of.recipe.flag("kv-transfer-config") or said.of.recipe.flag("kv-offloading-size"))
            and not said.switch("enable-cumem-allocator")
            and not said.switch("enable-sleep-mode")
        ),
        "PYTORCH_CUDA_ALLOC_CONF has expandable_segments, whose memory a KV connector can't register",
        "remove the variable, or add enable-cumem-allocator",
        _CONFIG,
        since="0.22.0",
    ),
    refusal(
        lambda said: said.value("mamba-block-size") != "" and said.switch("enable-prefix-caching") is False,
        "mamba-block-size is for prefix caching, and that is off",
        "remove it, or no-enable-prefix-caching",
        _CONFIG,
    ),
    refusal(
        lambda said: (
            said.value("mamba-block-size") != ""
            and said.switch("enable-prefix-caching") is None
            and not said.caches_prefixes
        ),
        "mamba-block-size is for prefix caching, which is off in a hybrid unless it is asked for",
        "add enable-prefix-caching, or remove it",
        _CONFIG,
    ),
    refusal(
        lambda said: (
            said.is_hybrid
            and said.caches_prefixes
            and said.switch("enable-chunked-prefill") is False
            and (said.value("mamba-cache-mode") == "align" or not said.has_mamba)
        ),
        "prefix caching of a hybrid in mode align wants chunked prefill, and that is off",
        "remove no-enable-chunked-prefill",
        "model_executor/models/config.py, MambaModelConfig",
    ),
    refusal(
        lambda said: (
            said.switch("enable-mamba-cache-stochastic-rounding") is True
            and said.value("mamba-ssm-cache-dtype") != "float16"
        ),
        "enable-mamba-cache-stochastic-rounding wants mamba-ssm-cache-dtype float16",
        "set mamba-ssm-cache-dtype to float16, or remove it",
        _CONFIG,
        since="0.20.0",
    ),
    refusal(
        lambda said: said.switch("use-replayssm") is True and said.value("mamba-cache-mode") == "all",
        "use-replayssm caches prefixes in mode align alone, and mamba-cache-mode is all",
        "set mamba-cache-mode to align",
        _CONFIG,
        since="0.27.0",
        before="0.32.0",
    ),
    refusal(
        lambda said: said.switch("use-replayssm") is True and said.of.recipe.flag("kv-transfer-config") is not None,
        "use-replayssm does not go with a KV connector",
        "remove one of them",
        _CONFIG,
        since="0.27.0",
    ),
    refusal(
        lambda said: (
            said.value("kv-cache-dtype").startswith("nvfp4")
            and not said.value("kv-cache-dtype").endswith("_ds_mla")
            and bool(re.search(r"deepseek-(?:v[23]|r1)|kimi-k[23]|glm-(?:4\.7-flash|5)", said.repo))
        ),
        "a KV cache of nvfp4 does not go with the latent attention of {repo}",
        "take fp8 for kv-cache-dtype",
        _CONFIG,
        since="0.22.0",
    ),
    refusal(
        lambda said: said.stages > 1 and said.part("attention-config", "hisparse_config") is not None,
        "hisparse_config does not go with pipeline stages",
        "remove it, or set pipeline_parallel to 1",
        _CONFIG,
        since="0.30.0",
    ),
    refusal(
        lambda said: (
            said.switch("language-model-only") is True
            and str(said.part("compilation-config", "cudagraph_mm_encoder")).lower() == "true"
        ),
        "language-model-only never runs the encoder that cudagraph_mm_encoder is for",
        "remove one of them",
        _CONFIG,
        since="0.29.0",
    ),
)
