"""Words of `llama-server`: flags that are the plan's, other names of flags, and what sparkrun makes of `defaults`.

Read in the help of release 0.7.0, build 11669 (docs/engines.md).
"""

from __future__ import annotations

from collections.abc import Mapping

from operations.plan.engines.base import Sparkrun

_PROXY = "a key in argv can be read by everybody; the proxy has the key"
_TLS = "the proxy has the certificate"
_MODELS = "an engine serves one model; several are the knob `models`"
_AGENT = "it lets whoever asks read files, and run programs, in the container"
OWNED: Mapping[str, str] = {
    "model": "`model.repo` and `model.files` say it",
    "hf-file": "`model.files` says it",
    "hf-token": "the knob `hub_token_file` says it",
    "model-url": "`model.repo` and `model.files` say it: what is fetched is proven by its hash",
    "mmproj-url": "`mmproj: {model}/NAME.gguf` names a file of the model's repository",
    "docker-repo": "`model.repo` and `model.files` say it",
    "spec-draft-hf": "list the draft in `further_models`, and name its file: `spec-draft-model: ORG/NAME/FILE.gguf`",
    "offline": "a start fetches nothing: the model is in the store",
    "host": "the engine binds to the fabric or loopback",
    "port": "the knob `engine_port` says it",
    "reuse-port": "the knob `engine_port` says it, and one engine listens there",
    "served-model-name": "`served_name` says it",
    "metrics": "they are always on: by its metrics the canary knows that it works",
    "api-prefix": "the proxy asks below `/v1`",
    "rpc": "its RPC is not used here",
    "api-key": _PROXY,
    "api-key-file": _PROXY,
    "ssl-key-file": _TLS,
    "ssl-cert-file": _TLS,
    "models-dir": _MODELS,
    "models-preset": _MODELS,
    "models-max": _MODELS,
    "sleep-idle-seconds": "the canary asks an idle engine, which would wake it again and again",
    "tools": _AGENT,
    "agent": _AGENT,
    "ui-mcp-proxy": _AGENT,
    "mcp-servers-config": _AGENT,
    "mcp-servers-json": _AGENT,
}
IGNORED = ("model", "hf-file", "offline", "host", "port", "served-model-name", "metrics", "api-key")
TAKES: Mapping[str, int] = dict.fromkeys(("offline", "metrics", "reuse-port", "agent", "ui-mcp-proxy"), 0)
#: What has one name in this project for all of its own.
SAME: Mapping[str, str] = {
    "hf-repo": "model",
    "alias": "served-model-name",
    "hf-repo-draft": "spec-draft-hf",
    "model-draft": "spec-draft-model",
    "gpu-layers": "n-gpu-layers",
    "gpu-layers-draft": "spec-draft-ngl",
    "n-gpu-layers-draft": "spec-draft-ngl",
    "embedding": "embeddings",
    "rerank": "reranking",
    "temperature": "temp",
    "n-predict": "predict",
    "webui": "ui",
    "no-webui": "no-ui",
    "webui-mcp-proxy": "ui-mcp-proxy",
    "cache-type-k-draft": "spec-draft-type-k",
    "cache-type-v-draft": "spec-draft-type-v",
    "threads-draft": "spec-draft-threads",
}
SHORT: Mapping[str, str] = {
    "m": "model",
    "hf": "model",
    "hfr": "model",
    "hff": "hf-file",
    "hft": "hf-token",
    "mu": "model-url",
    "mm": "mmproj",
    "mmu": "mmproj-url",
    "dr": "docker-repo",
    "a": "served-model-name",
    "ag": "agent",
    "hfd": "spec-draft-hf",
    "hfrd": "spec-draft-hf",
    "md": "spec-draft-model",
    "ngld": "spec-draft-ngl",
    "c": "ctx-size",
    "np": "parallel",
    "b": "batch-size",
    "ub": "ubatch-size",
    "n": "predict",
    "s": "seed",
    "t": "threads",
    "tb": "threads-batch",
    "td": "spec-draft-threads",
    "to": "timeout",
    "j": "json-schema",
    "ngl": "n-gpu-layers",
    "fa": "flash-attn",
    "sm": "split-mode",
    "ts": "tensor-split",
    "mg": "main-gpu",
    "dev": "device",
    "ot": "override-tensor",
    "cmoe": "cpu-moe",
    "ncmoe": "n-cpu-moe",
    "fit": "fit",
    "fitt": "fit-target",
    "fitc": "fit-ctx",
    "ctk": "cache-type-k",
    "ctv": "cache-type-v",
    "l": "logit-bias",
    "ctkd": "spec-draft-type-k",
    "ctvd": "spec-draft-type-v",
    "cb": "cont-batching",
    "nocb": "no-cont-batching",
    "kvo": "kv-offload",
    "nkvo": "no-kv-offload",
    "kvu": "kv-unified",
    "no-kvu": "no-kv-unified",
    "e": "escape",
    "nr": "no-repack",
    "ctxcp": "ctx-checkpoints",
    "cram": "cache-ram",
    "sp": "special",
    "jf": "json-schema-file",
    "rea": "reasoning",
    "sps": "slot-prompt-similarity",
    "v": "verbose",
    "lv": "verbosity",
    "r": "reverse-prompt",
    "lm": "load-mode",
    "lzm": "lazy-mode",
    "bs": "backend-sampling",
    "dt": "defrag-thold",
    "nfa": "no-flash-attn",
}
#: What releases before this one had, and what says it now.
OLDER: Mapping[str, str] = {
    "mmap": "write `load-mode: mmap`",
    "no-mmap": "write `load-mode: none`",
    "mlock": "write `load-mode: mlock`",
    "no-flash-attn": "write `flash-attn: off`",
}
#: Source: `_LLAMA_CPP_FLAG_MAP`, `_LLAMA_CPP_BOOL_FLAGS`, `_LLAMA_CPP_DEFAULTS` and `_special_flags` in
#: sparkrun/runtimes/llama_cpp.py of sparkrun 0.4.2 on PyPI; the image is that of `_DGX_SPARK_DEFAULTS` in
#: sparkrun/platforms/dgx_spark.py.
SPARKRUN = Sparkrun(
    runtimes=("llama-cpp", "llama.cpp", "llamacpp"),
    flags={
        **{key: key.replace("_", "-") for key in ("port", "host", "ctx_size", "n_gpu_layers", "parallel", "threads")},
        **{key: key.replace("_", "-") for key in ("chat_template", "reasoning_format", "split_mode", "api_key")},
        **{key: key.replace("_", "-") for key in ("top_p", "top_k", "min_p", "presence_penalty", "flash_attn")},
        "temperature": "temp",
        "served_model_name": "alias",
    },
    switches={"cont_batching": "cont-batching", "jinja": "jinja", "no_webui": "no-webui"},
    off={"webui": "no-webui", "mmap": "no-mmap"},
    valued=("flash_attn",),
    image="scitrera/dgx-spark-llama-cpp:latest",
    same={"max_model_len": "ctx_size"},
    otherwise={"split_mode": "layer"},
)
