"""The flags that sparkrun makes of `defaults` when a recipe has no command: what it does not know it leaves out.

Source: `VLLM_FLAG_MAP`, `VLLM_BOOL_FLAGS` and `VLLM_NEGATABLE_BOOL_FLAGS` in sparkrun/runtimes/_vllm_common.py,
`_TRTLLM_FLAG_MAP` in trtllm.py, `BASE_CONSUMED_CONFIG_KEYS` in base.py, of sparkrun 0.4.2 on PyPI.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import Any

from operations.plan.formats.shell import Word, split
from operations.plan.refusal import Remark, nearest

_VLLM_SWITCHES = (
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
_VLLM = (
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
_TRT_SWITCHES = ("trust_remote_code",)
_TRT = (
    *("backend", "expert_parallel", "host", "kv_cache_free_gpu_memory_fraction", "max_batch_size", "max_model_len"),
    *("max_num_tokens", "pipeline_parallel", "port", "tensor_parallel", "tokenizer"),
)
_VLLM_LONG = {"tensor_parallel": "tensor-parallel-size", "pipeline_parallel": "pipeline-parallel-size"}
_VLLM_LONG |= {"data_parallel": "data-parallel-size"}
_TRT_LONG = {"tensor_parallel": "tp_size", "pipeline_parallel": "pp_size", "expert_parallel": "ep_size"}
_TRT_LONG |= {"max_model_len": "max_seq_len"}
#: How like a known name another has to be to be taken for its misspelling.
_NEAR = 0.8
#: Read by name elsewhere in sparkrun: no flags, and nothing to be said.
CONSUMED = (
    *("api_key", "benchmark_framework", "benchmark_output_dir", "data_parallel", "ep_size", "executor"),
    *("expert_parallel", "host", "image_prefix", "init_port", "kubectl", "launcher_image", "model"),
    *("pipeline_parallel", "port", "resolved_model_path", "save_build_logs", "served_model_name"),
    *("tensor_parallel", "transformers", "use_sentinel_image", "data_parallel_rpc_port"),
    "distributed_executor_backend",
)
KNOWN = (*_VLLM, *_VLLM_SWITCHES)


def words(defaults: Mapping[str, Any], engine: str, options: Mapping[str, Any]) -> Iterator[Word]:
    """The words behind the model; raises ValueError for a quote that is not closed. `options`: keys of its own file."""
    is_vllm = engine == "vllm"
    known, switches = (_VLLM, _VLLM_SWITCHES) if is_vllm else (_TRT, _TRT_SWITCHES)
    for key, value in defaults.items():
        long = _VLLM_LONG.get(key, key.replace("_", "-")) if is_vllm else _TRT_LONG.get(key, key)
        if value is None or key in options:
            continue
        if key in switches:
            if _is_on(value):
                yield Word(f"--{long}")
            elif is_vllm and key in _ON_BY_DEFAULT:
                yield Word(f"--no-{long}")
        elif key in known:
            yield Word(f"--{long}")
            yield from _value(value)


def left_out(defaults: Mapping[str, Any], engine: str, options: Mapping[str, Any]) -> list[Remark]:
    """A word about each name that sparkrun makes no flag of."""
    known = (*_VLLM, *_VLLM_SWITCHES) if engine == "vllm" else (*_TRT, *_TRT_SWITCHES, *options)
    said = []
    for key, value in defaults.items():
        if value is not None and key not in known and key not in CONSUMED:
            remedy = nearest(key, known, f"write a `command` with --{key.replace('_', '-')} if it is meant", _NEAR)
            said.append(Remark(False, f"`{key}` under `defaults` is no flag that sparkrun makes: left out", remedy))
    return said


def _is_on(value: Any) -> bool:
    """A switch as sparkrun's library reads it: on with a 1, a t or a y anywhere in it."""
    return value is True or (bool(value) and any(each in str(value).lower() for each in "1ty"))


def _value(value: Any) -> Iterator[Word]:
    """As in the shell that sparkrun writes it for: blanks make words, unless it is JSON."""
    if isinstance(value, dict | list):
        yield Word(json.dumps(value, separators=(",", ":"), default=str))
        return
    text = str(value).strip()
    if text.startswith(("{", "[")):
        yield Word(text)
        return
    for command in split(text).commands:
        yield from command
