"""The flags of vLLM that sparkrun makes of `defaults` when a recipe has no command.

Source: `VLLM_FLAG_MAP`, `VLLM_BOOL_FLAGS` and `VLLM_NEGATABLE_BOOL_FLAGS` in sparkrun/runtimes/_vllm_common.py, of
sparkrun 0.4.2 on PyPI.
"""

from __future__ import annotations

from operations.plan.engines.base import Sparkrun

_SWITCHES = (
    *("async_scheduling", "disable_custom_all_reduce", "enable_auto_tool_choice", "enable_chunked_prefill"),
    *("enable_flashinfer_autotune", "enable_force_include_usage", "enable_mamba_shared_prefix_checkpoint"),
    *("enable_prefix_caching", "enable_prompt_tokens_details", "enable_request_id_headers", "enforce_eager"),
    *("scheduler_reserve_full_isl", "trust_remote_code"),
)
#: vLLM turns these on by itself: false has to be said.
_ON_BY_DEFAULT = (
    *("async_scheduling", "enable_chunked_prefill", "enable_flashinfer_autotune", "enable_prefix_caching"),
    "scheduler_reserve_full_isl",
)
_FLAGS = (
    *("allowed_local_media_path", "api_key", "attention_backend", "attention_config", "block_size", "chat_template"),
    *("compilation_config", "data_parallel", "dcp_comm_backend", "decode_refill_target"),
    *("default_chat_template_kwargs", "distributed_executor_backend", "dtype", "engram_config", "gdn_decode_kernel"),
    *("gdn_prefill_backend", "generation_config", "gpu_memory_utilization", "hf_overrides", "host"),
    *("jit_monitor_mode", "kda_prefill_backend", "kv_cache_dtype", "kv_cache_memory_bytes", "limit_mm_per_prompt"),
    *("linear_backend", "load_format", "long_prefill_token_threshold", "mamba_backend", "mamba_cache_dtype"),
    *("mamba_cache_mode", "mamba_ssm_cache_dtype", "max_cudagraph_capture_size", "max_model_len"),
    *("max_num_batched_tokens", "max_num_seqs", "max_parallel_prefills", "media_io_kwargs", "mm_encoder_tp_mode"),
    *("mm_processor_cache_gb", "model_loader_extra_config", "moe_backend", "otlp_traces_endpoint"),
    *("pipeline_parallel", "port", "prefill_compute_half_life", "prefill_compute_share", "prefill_policy"),
    *("prefill_schedule_interval", "prefix_cache_retention_interval", "prefix_match_unit", "quantization"),
    *("reasoning_parser", "reasoning_parser_plugin", "recurrent_checkpoint_policy", "safetensors_load_strategy"),
    *("seed", "served_model_name", "speculative_config", "tensor_parallel", "tokenizer_mode", "tool_call_parser"),
    "video_pruning_rate",
)
_LONG = {
    "tensor_parallel": "tensor-parallel-size",
    "pipeline_parallel": "pipeline-parallel-size",
    "data_parallel": "data-parallel-size",
}

SPARKRUN = Sparkrun(
    runtimes=("vllm*", "eugr-vllm", "eugr-vllm-ray"),
    flags={key: _LONG.get(key, key.replace("_", "-")) for key in _FLAGS},
    switches={key: key.replace("_", "-") for key in _SWITCHES},
    on=_ON_BY_DEFAULT,
    image="ghcr.io/spark-arena/dgx-vllm-eugr-nightly-tf5:latest",
    builds=("eugr-vllm", "eugr-vllm-ray"),
)
