"""SGLang: one process, or the ranks of its own launcher.

What it has was read in the wheel of 0.5.23 ([V] in docs/sources.md). Nobody has run it through Tandem yet.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from typing import Any, Literal

from operations.plan.cluster.addresses import model_path
from operations.plan.cluster.nodes import Node
from operations.plan.config.knobs import Knobs
from operations.plan.config.refusal import Remark
from operations.plan.config.spark import MOST_SHARE
from operations.plan.engines import sglang_starts
from operations.plan.engines.abilities import UNRECITED, unparsed
from operations.plan.engines.base import (
    CONTEXT_TOKENS,
    Demand,
    Engine,
    Memory,
    Question,
    Signs,
    Sparkrun,
    count,
    share,
)
from operations.plan.engines.kept import LIBRARIES, Cache
from operations.plan.engines.named import Named, Place, by_name, place
from operations.plan.recipes.lint import room
from operations.plan.recipes.lint.near import hint, slip
from operations.plan.recipes.lint.subject import Subject
from operations.plan.recipes.recipe import MODEL, Answers, Flag, Kind, Recipe

#: Flags that name something to load; a template may also be a word of SGLang's own.
_NAMING: dict[str, Kind | Literal["file"]] = {
    "speculative-draft-model-path": "model",
    "uno-lora-path": "adapter",
    "tokenizer-path": "files",
    "chat-template": "file",
    "completion-template": "file",
    "quantization-param-path": "file",
    "speculative-token-map": "file",
}
_TEMPLATES = ("chat-template", "completion-template")
_GPUS = "in Tandem's topologies a model is split by tensors alone"
#: Source: `_SGLANG_FLAG_MAP` and `_SGLANG_BOOL_FLAGS` in sparkrun/runtimes/sglang.py of sparkrun 0.4.2 on PyPI.
_LONG = {
    "tensor_parallel": "tp-size",
    "pipeline_parallel": "pp-size",
    "expert_parallel": "ep-size",
    "gpu_memory_utilization": "mem-fraction-static",
    "max_model_len": "context-length",
    "max_num_seqs": "max-running-requests",
    "chunked_prefill": "chunked-prefill-size",
    "speculative_draft_model": "speculative-draft-model-path",
}
_FLAGS = (
    *("port", "host", "served_model_name", "dtype", "quantization", "kv_cache_dtype", "tokenizer_path", "api_key"),
    *("attention_backend", "load_format", "revision", "model_type", "max_total_tokens", "random_seed"),
    *("reasoning_parser", "tool_call_parser", "mm_feature_transport", "speculative_algorithm"),
    *("speculative_draft_model_path", "speculative_draft_model_revision", "speculative_num_steps"),
    *("speculative_eagle_topk", "speculative_num_draft_tokens", "speculative_dspark_block_size", "cuda_graph_bs"),
    *("cuda_graph_max_bs", "cuda_graph_max_bs_decode", "torch_compile_max_bs", "num_continuous_decode_steps"),
    *("fp8_gemm_backend", "fp4_gemm_backend", "moe_runner_backend", "mamba_ssm_dtype", "mamba_full_memory_ratio"),
)
_SWITCHES = (
    *("enable_dp_attention", "trust_remote_code", "enable_torch_compile", "disable_radix_cache"),
    *("disable_prefill_cuda_graph", "enable_decoder_swa_bounded_replay"),
)


class SgLang(Engine):
    """`sglang serve`."""

    TITLE = "SGLang"
    PROGRAM = ("sglang", "serve")
    #: Its scheduler counts tokens after each step, a chunk of a prompt among them, where it is new enough for
    #: `realtime_tokens_total`; before that these gauges follow each chunk, and the histogram each token. Time and CPU
    #: that it counts as well go on in a scheduler that turns in vain.
    SIGNS = Signs(
        "/metrics",
        r"^sglang:(?:realtime_tokens_total|prompt_tokens_total|generation_tokens_total|token_usage|num_used_tokens"
        r"|num_running_reqs|num_queue_reqs|inter_token_latency_seconds_count)(?:\{.*\})? \S+$",
    )
    QUESTIONS = {
        "embedding": Question("/v1/embeddings", {"input": "Hi"}, r'"embedding": ?\[ ?-?\d'),
    }
    UNPROVEN = {
        "rerank": "it ranks documents, and the proxy (LiteLLM) does not read the bare list that SGLang answers with"
    }
    TOPOLOGIES = ("solo", "cluster", "replicas")
    WEIGHTS = "model"
    PACKAGE = "sglang"
    EXECUTORS = ("mp",)
    OWNED = {
        "model": "`model.repo` says it",
        "revision": "`model.revision` says it",
        "download-dir": "the knob `model_store` says it",
        "host": "the engine binds to the fabric or loopback",
        "port": "the knob `engine_port` says it",
        "served-model-name": "`served_name` says it",
        "tp-size": "it follows from the topology and the number of nodes",
        "pp-size": _GPUS,
        "dp-size": "the topology `replicas` is the way to serve in parallel",
        "ep-size": _GPUS,
        "nnodes": "it is the number of nodes in the inventory",
        "node-rank": "it follows from the node's place in the inventory",
        "dist-init-addr": "it is the head's fabric address, and the knob `cluster_ports` says the port",
        "use-ray": "SGLang's own launcher joins the ranks here",
        "enable-metrics": "it is always on: by its metrics the canary knows that it works",
        "disaggregation-mode": "an engine of Tandem's reads prompts and answers them itself",
        "smg-grpc-mode": "the proxy asks it over HTTP",
        "grpc-mode": "the proxy asks it over HTTP",
        "api-key": "a key in argv can be read by everybody; the proxy has the key",
        "admin-api-key": "a key in argv can be read by everybody; the proxy passes no such question on",
        "ssl-certfile": "the proxy has the certificate",
        "ssl-keyfile": "the proxy has the certificate",
        "config": "the recipe is the one place for flags",
    }
    IGNORED_FOREIGN_FLAGS = (
        *("model", "download-dir", "host", "port", "served-model-name", "tp-size", "nnodes", "node-rank"),
        *("dist-init-addr", "enable-metrics", "api-key"),
    )
    #: Its attention's data-parallel parts are then among the GPUs that the model is split over ([V]).
    OWN_BESIDE = {"dp-size": "enable-dp-attention"}
    TAKES = dict.fromkeys(("enable-metrics", "use-ray", "smg-grpc-mode", "grpc-mode"), 0)
    SHARE = "mem-fraction-static"
    SPLIT = "tp-size"
    COUNTED = ("pp-size", "dp-size", "ep-size")
    REQUESTS = "max-running-requests"
    CONTEXT = "context-length"
    SEVERAL = (
        *("allowed-media-domains", "bucket-e2e-request-latency", "bucket-inter-token-latency"),
        *("bucket-time-to-first-token", "cuda-graph-bs-decode", "cuda-graph-bs-prefill", "custom-weight-loader"),
        *("debug-tensor-dump-layers", "encoder-register-urls", "encoder-urls", "flashinfer-autotune-skip-ops"),
        *("gc-threshold", "generation-tokens-buckets", "log-requests-target", "lora-paths", "lora-target-modules"),
        *("model-checksum", "numa-node", "prefill-delayer-forward-passes-buckets"),
        *("prefill-delayer-wait-seconds-buckets", "prompt-tokens-buckets", "return-aux-hidden-state-layer-ids"),
        *("tokenizer-metrics-allowed-custom-labels", "uvicorn-access-log-exclude-prefixes"),
    )
    #: Its aliases, and what its parser takes for them because they are cut short.
    SAME = {
        "model-path": "model",
        **dict.fromkeys(("tp", "tensor-parallel-size"), "tp-size"),
        **dict.fromkeys(("pp", "pipeline-parallel-size"), "pp-size"),
        **dict.fromkeys(("dp", "data-parallel-size"), "dp-size"),
        **dict.fromkeys(("ep", "expert-parallel-size"), "ep-size"),
        "nccl-init-addr": "dist-init-addr",
        "speculative-draft-model": "speculative-draft-model-path",
    }
    IMAGES = ("lmsysorg/sglang",)
    PLACES = ("/sgl-workspace/",)
    #: It takes the address of the default route otherwise.
    ADDRESS = ("SGLANG_HOST_IP",)
    SPARKRUN = Sparkrun(
        runtimes=("sglang",),
        flags=_LONG | {key: key.replace("_", "-") for key in _FLAGS},
        switches={key: key.replace("_", "-") for key in _SWITCHES},
        image="scitrera/dgx-spark-sglang:latest",
    )
    #: Not tried here: whether it uses them to finish what is under way.
    STOP_S = 20
    METRICS = "sglang:"
    PANELS = {
        "running": "sglang:num_running_reqs",
        "waiting": "sglang:num_queue_reqs",
        "tokens_out": "sglang:generation_tokens_total",
        "tokens_in": "sglang:prompt_tokens_total",
        "first_token": "sglang:time_to_first_token_seconds",
        "between_tokens": "sglang:inter_token_latency_seconds",
        "prefix_found": "sglang:cached_tokens_total",
        "prefix_asked": "sglang:prompt_tokens_total",
        "kv_fill": "sglang:token_usage",
    }
    #: It asks its prefix cache for each token of a prompt.
    COUNTERS = {
        "requests": ("sglang:num_requests",),
        "prompt_tokens": ("sglang:prompt_tokens",),
        "answer_tokens": ("sglang:generation_tokens",),
        "prefix_asked": ("sglang:prompt_tokens",),
        "prefix_found": ("sglang:cached_tokens",),
        "preemptions": ("sglang:num_retracted_requests",),
    }
    CACHES = (
        *LIBRARIES,
        Cache(
            path="sglang/flashinfer/autotune",
            ranks="own",
            key="the model's kind, quantization, ranks and kernels, the GPU's architecture and the rank",
            source="srt/model_executor/runner/flashinfer_autotune.py: ranks compare theirs, and drop what differs",
        ),
        Cache(
            path="sglang/deep_gemm",
            ranks="own",
            key="each kernel's code",
            source="srt/layers/deep_gemm_wrapper/compile_utils.py: compiled kernels, no collective",
            by_name=True,
        ),
    )
    STARTS = sglang_starts.STARTS
    LOADERS = sglang_starts.LOADERS
    LOADS = sglang_starts.LOADS

    def arguments(self, words: Sequence[str]) -> list[str] | None:
        """`sglang serve ...`, or the module that it runs."""
        program = words[0].rpartition("/")[2]
        if program == "sglang" and list(words[1:2]) == ["serve"]:
            return list(words[2:])
        if program.startswith("python") and list(words[1:3]) == ["-m", "sglang.launch_server"]:
            return list(words[3:])
        return None

    def program(self, called: Sequence[str]) -> list[str]:
        """As it is written: an image that is older than `sglang serve` has the module alone."""
        return [] if tuple(called) == self.PROGRAM else list(called)

    def placed(self, recipe: Recipe, place: Place) -> list[str]:
        """Drafts, adapters, a tokenizer, templates."""
        return [word for each in recipe.flags for word in _placed(recipe, each, place)]

    def answers(self, recipe: Recipe) -> Answers:
        """By `is-embedding`, or else the model's name; what ranks wants that flag as well."""
        name = by_name(recipe)
        return "embedding" if recipe.flag("is-embedding") and name not in ("rerank", "reward") else name or "chat"

    def adapters(self, recipe: Recipe) -> tuple[str, ...]:
        """Clients ask for `MODEL:ADAPTER`: an adapter's name alone would be taken for another name of the model."""
        values = [value for each in recipe.flags if each.name == "lora-paths" for value in _values(each)]
        return tuple(f"{recipe.served_name}:{name}" for name, _ in map(_adapter, values) if name)

    def continues(self, recipe: Recipe) -> Mapping[str, Any] | None:
        """It puts the beginning of an answer behind the template's own beginning of one. For a model that reasons the
        template may open its thoughts there, and the answer would go on as one.
        """
        return None if recipe.flag("reasoning-parser") else {"continue_final_message": True}

    def lacks(self, recipe: Recipe) -> Mapping[str, str]:
        """Calls and thoughts, where no parser is named."""
        return unparsed(recipe, ("tool-call-parser",), "reasoning-parser") | UNRECITED

    def commands(self, recipe: Recipe, knobs: Knobs, node: Node, serving: Sequence[Node]) -> list[list[str]]:
        """One engine, or a rank; those behind the first answer nobody but questions for their health, on loopback."""
        head, ranks = serving[0], len(serving)
        if knobs.topology != "cluster":
            return [self._serve(recipe, knobs, node.fabric, 1)]
        argv = self._serve(recipe, knobs, node.fabric if node.leads else "127.0.0.1", ranks)
        meeting = f"{head.fabric}:{knobs.port('master')}"
        return [[*argv, "--nnodes", str(ranks), "--node-rank", str(node.place), "--dist-init-addr", meeting]]

    def environment(self, recipe: Recipe, knobs: Knobs) -> dict[str, str]:
        """`/health` answers at once. By default it waits for a token, behind the batch that runs: the door would take a
        long prompt for a dead engine (upstream's `health_generate`).
        """
        return {"SGLANG_ENABLE_HEALTH_ENDPOINT_GENERATION": "0"}

    def step_tokens(self, recipe: Recipe) -> int:
        """A chunk; a whole prompt where it is told to read prompts at once."""
        chunk = str(recipe.flag("chunked-prefill-size") or "")
        return self.context_tokens(recipe) if chunk == "-1" else count(chunk)

    def context_tokens(self, recipe: Recipe) -> int:
        """`context-length`."""
        return _tokens(recipe) or CONTEXT_TOKENS

    def drafts(self, recipe: Recipe) -> bool:
        """Whether tokens are drafted: `speculative-algorithm` names how."""
        return recipe.flag("speculative-algorithm") is not None

    def memory(self, recipe: Recipe) -> Memory:
        """Its share is that of weights and KV cache together."""
        requests = str(recipe.flag(self.REQUESTS) or "")
        return Memory(
            share(recipe.flag("mem-fraction-static")),
            cache_type=str(recipe.flag("kv-cache-dtype") or ""),
            requests=int(requests) if requests.isdigit() else None,
            context=_tokens(recipe) or None,
        )

    def demand(self, recipe: Recipe, parts: int) -> Demand:
        """What its weights fit into: its share is one of what it finds free, not of the whole, and it ends where they
        leave no KV cache of that ([V]: `_profile_available_bytes` in srt/mem_cache/kv_cache_configurator.py).
        """
        return Demand(gib=(recipe.weights_gib or 0.0) / parts / (share(recipe.flag(self.SHARE)) or 1.0))

    def lint(self, of: Subject) -> Iterator[Remark]:
        """By a list of its flags, and by what people have met on two Sparks."""
        yield from _names(of)
        said = of.recipe.flag("mem-fraction-static")
        part = share(said)
        if said is not None and (part is None or not 0 < part < 1):
            yield Remark(True, f"mem-fraction-static is {said}", "write a share of memory between 0 and 1")
        elif part is not None and part > MOST_SHARE and of.recipe.needs.gpu:
            problem = f"mem-fraction-static is {said}: what is computed of weights and KV cache comes on top of them"
            yield Remark(
                False,
                f"{problem}, and unified memory that runs out freezes the node",
                f"set it to {MOST_SHARE} or less",
            )
        yield from room.fits(of, flag="mem-fraction-static" if part else "", share=part or 1.0)
        eager = any("cuda-graph" in each.name and "bs" not in each.name for each in of.recipe.flags)
        if of.knobs.topology == "cluster" and not eager:
            problem = "over several nodes the capture of CUDA graphs was seen to hang (SGLang #3547, #4007, #29548)"
            yield Remark(False, problem, "if its start hangs there, set disable-cuda-graph")

    def judged_by(self, of: Subject) -> str:
        """Lists of its releases."""
        return f"the flags of {of.who}"

    def _serve(self, recipe: Recipe, knobs: Knobs, address: str, gpus: int) -> list[str]:
        return [
            *(recipe.program or self.PROGRAM),
            *("--model-path", model_path(recipe), "--served-model-name", recipe.served_name),
            *("--host", address, "--port", str(knobs.engine_port), "--tp-size", str(gpus), "--enable-metrics"),
            *self.placed(recipe, partial(place, recipe)),
        ]


def _tokens(recipe: Recipe) -> int:
    """Tokens of a question and its answer; `Ki` is what count() calls `K`."""
    return count(str(recipe.flag(SgLang.CONTEXT) or "").replace("Ki", "K").replace("Mi", "M"))


def _names(of: Subject) -> Iterator[Remark]:
    """Flags that it does not have: where its release is not known, that none of them has. What is no slip may be this
    image's own.
    """
    known = {name: said for each in of.vocabularies for name, said in (each["flags"] or {}).items()}
    for each in of.recipe.flags:
        head = each.words[0].partition("=")[0]
        name = head.lstrip("-")
        begun = [other for other in known if other.startswith(name)]
        if name.replace("_", "-") in known and name not in known:
            yield Remark(True, of.no("has", f"`{head}`", "flag"), f"write --{name.replace('_', '-')}")
        elif name in known:
            if known[name].get("takes") == "bare" and each.value is not True:
                yield Remark(True, f"{name} is a switch, and `{str(each.value)[:60]}` stands behind it", "remove that")
        elif len(begun) == 1:
            yield Remark(False, f"--{begun[0]} is meant by `{head}`, which no rule here sees", f"write --{begun[0]}")
        elif meant := slip(name, known):
            yield Remark(True, of.no("has", f"`{head}`", "flag"), f"did you mean `{meant}`?")
        else:
            remedy = hint(name, known, "remove it") + " or it is one of this image's own"
            yield Remark(False, of.no("has", f"`{head}`", "flag"), remedy)


def _values(flag: Flag) -> list[str]:
    return [str(flag.value)] if "=" in flag.words[0] else list(flag.words[1:])


def _adapter(value: str) -> tuple[str, str]:
    """Name and path: JSON, `NAME=PATH`, or a path that is its own name."""
    if value.startswith("{"):
        try:
            found = json.loads(value)
        except ValueError:
            return "", ""
        return str(found.get("lora_name", "")), str(found.get("lora_path", ""))
    name, equals, path = value.partition("=")
    return name, path if equals else value


def _placed(recipe: Recipe, flag: Flag, place: Place) -> list[str]:
    head, equals, _ = flag.words[0].partition("=")
    name, values = SgLang.SAME.get(flag.name, flag.name), [] if flag.value is True else _values(flag)
    if name == "lora-paths":
        values = [_placed_adapter(value, partial(_named, place, head)) for value in values]
    elif values and name in _NAMING and not (name in _TEMPLATES and not _is_file(values[0])):
        revision = recipe.flag("speculative-draft-model-revision") if _NAMING[name] == "model" else ""
        values[0] = place(Named(head, values[0], _NAMING[name], str(revision or "")))
    else:
        values = [place(Named(head, value, "file")) if value.startswith(f"{MODEL}/") else value for value in values]
    return [f"{head}={values[0]}", *values[1:]] if equals and values else [head, *values]


def _named(place: Place, head: str, text: str) -> str:
    return place(Named(head, text, "adapter"))


def _placed_adapter(value: str, place: Callable[[str], str]) -> str:
    name, path = _adapter(value)
    if not path:
        return value
    if value.startswith("{"):
        return json.dumps({**json.loads(value), "lora_path": place(path)}, separators=(",", ":"))
    return f"{name}={place(path)}"


def _is_file(template: str) -> bool:
    """A file, where a word may also be the name of a template that SGLang has."""
    return "/" in template or "." in template
