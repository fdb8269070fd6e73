"""TensorRT-LLM: `trtllm-serve` with its file of extra LLM API options, one engine on one node."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from typing import Literal

import yaml

from operations.plan.cluster import environment
from operations.plan.cluster.addresses import model_path
from operations.plan.cluster.nodes import Node
from operations.plan.config.knobs import Knobs
from operations.plan.config.refusal import Remark, nearest
from operations.plan.engines.abilities import UNRECITED, unparsed
from operations.plan.engines.base import (
    CONTEXT_TOKENS,
    Demand,
    Engine,
    Memory,
    Signs,
    Sparkrun,
    count,
)
from operations.plan.engines.kept import LIBRARIES
from operations.plan.engines.named import Named, Place, place
from operations.plan.engines.starts import AUTOTUNER, Mark
from operations.plan.recipes.lint import room
from operations.plan.recipes.lint.subject import Subject
from operations.plan.recipes.recipe import MODEL, Answers, Flag, Kind, Recipe
from operations.wire import Json

OPTIONS = "extra-llm-api-config.yml"
#: Without it /metrics is an empty list. Its TensorRT backend counts always, and does not know the option.
_STATISTICS = {"enable_iter_perf_stats": True}
#: Flags that name something to load; in the file of options a draft is `speculative_config.speculative_model`, whose
#: older name ends in `_dir`.
_NAMING: dict[str, Kind | Literal["file"]] = {
    "tokenizer": "files",
    "custom-tokenizer": "files",
    "chat-template": "file",
}
_DRAFT = ("speculative_model", "speculative_model_dir")
#: Its image can't be asked without a GPU. Source: [C] in docs/sources.md, and the options of `trtllm-serve` in 1.3.
_FLAGS = (
    *("backend", "tokenizer", "custom-tokenizer", "max-beam-width", "max-batch-size", "max-num-tokens", "max-seq-len"),
    *("kv-cache-free-gpu-memory-fraction", "free-gpu-memory-fraction", "num-postprocess-workers", "revision"),
    *("trust-remote-code", "reasoning-parser", "tool-parser", "metadata-server-config-file", "server-role"),
    *("fail-fast-on-attention-window-too-large", "log-level", "media-io-kwargs", "chat-template"),
    *("otlp-traces-endpoint", "enable-chunked-prefill", "disagg-cluster-uri", "no-telemetry", "telemetry"),
)
#: Source: `_TRTLLM_FLAG_MAP` in sparkrun/runtimes/trtllm.py of sparkrun 0.4.2 on PyPI.
_SPARKRUN = Sparkrun(
    runtimes=("trtllm", "tensorrt-llm", "trt-llm"),
    flags={
        **{key: key for key in ("backend", "host", "kv_cache_free_gpu_memory_fraction", "max_batch_size")},
        **{key: key for key in ("max_num_tokens", "port", "tokenizer")},
        "tensor_parallel": "tp_size",
        "pipeline_parallel": "pp_size",
        "expert_parallel": "ep_size",
        "max_model_len": "max_seq_len",
    },
    switches={"trust_remote_code": "trust_remote_code"},
    image="nvcr.io/nvidia/tensorrt-llm/release:latest",
    options={
        "free_gpu_memory_fraction": ("kv_cache_config", "free_gpu_memory_fraction"),
        "kv_cache_dtype": ("kv_cache_config", "dtype"),
        "kv_cache_enable_block_reuse": ("kv_cache_config", "enable_block_reuse"),
        "cuda_graph_padding": ("cuda_graph_config", "enable_padding"),
        "cuda_graph_max_batch_size": ("cuda_graph_config", "max_batch_size"),
        "moe_backend": ("moe_config", "backend"),
        "print_iter_log": ("", "print_iter_log"),
    },
)


class TensorRtLlm(Engine):
    """`trtllm-serve`. Over two nodes it wants MPI and ssh between containers, which Tandem does not set up."""

    TITLE = "TensorRT-LLM"
    PROGRAM = ("trtllm-serve",)
    #: A list of what each iteration of its executor has done since somebody asked last; idle it makes none.
    SIGNS = Signs("/metrics", r'"iter": ?\d+')
    TOPOLOGIES = ("solo", "replicas")
    ALONE = "over two nodes it wants MPI and ssh between containers"
    WEIGHTS = "model"
    PACKAGE = "tensorrt_llm"
    OWNED = {
        "model": "`model.repo` says it",
        "host": "the engine binds to the fabric or loopback",
        "port": "the knob `engine_port` says it",
        "served-model-name": "`served_name` says it",
        "tp-size": "in solo and replicas an engine has one GPU",
        "pp-size": "in solo and replicas an engine has one GPU",
        "ep-size": "in solo and replicas an engine has one GPU",
        "gpus-per-node": "a GB10 has one",
        "extra-llm-api-options": "`config` says it",
        "config": "`config` of the recipe says it",
    }
    IGNORED_FOREIGN_FLAGS = ("model", "host", "port", "served-model-name", "tp-size", "ep-size")
    TAKES = {"served-model-name": 100}
    SPLIT = "tp-size"
    COUNTED = ("pp-size",)
    REQUESTS = "max-batch-size"
    CONTEXT = "max-seq-len"
    IMAGES = ("nvcr.io/nvidia/tensorrt-llm/release",)
    SPARKRUN = _SPARKRUN
    #: Not tried here: whether it uses them to finish what is under way.
    STOP_S = 20
    METRICS = "trtllm_"
    #: It has no ranks here.
    CACHES = LIBRARIES
    #: Logs of 1.0 to 1.3 that others have published.
    STARTS = (
        Mark(
            r"Use (?P<gib>\d+(?:\.\d+)?) GB for model weights|Prefetching .* checkpoint files|Loading (?:\w+ )?weights",
            then="weights",
        ),
        Mark(r"Model init total -- [\d.]+s", was="weights", then="warm-up"),
        *AUTOTUNER,
        Mark(r"Creating CUDA graph instances for", then="graphs"),
        Mark(r"Application startup complete|Started server process", then="server"),
    )

    # It can't continue an answer: it has no word for that (tensorrt_llm/serve/openai_protocol.py), and refuses words
    # that it does not know.

    def arguments(self, words: Sequence[str]) -> list[str] | None:
        """`trtllm-serve [serve] ...`, also behind its launcher for several ranks."""
        rest = list(words)
        if rest[0].rpartition("/")[2] == "trtllm-llmapi-launch":
            rest = rest[1:]
        if not rest or rest[0].rpartition("/")[2] != "trtllm-serve":
            return None
        return rest[2:] if rest[1:2] == ["serve"] else rest[1:]

    def served_name(self, name: str) -> str:
        """Without whose it is: the model is served under the name of a folder."""
        return name.rpartition("/")[2]

    def placed(self, recipe: Recipe, place: Place) -> list[str]:
        """Tokenizer, template; a draft is in the file of options, and is told to `place` as well."""
        self._options(recipe, place)
        return [word for each in recipe.flags for word in _placed(each, place)]

    def answers(self, recipe: Recipe) -> Answers:
        """It has no other way of serving here."""
        return "chat"

    def lacks(self, recipe: Recipe) -> Mapping[str, str]:
        """Calls and thoughts, where no parser is named; schemas, where no backend for them is (its LLM API's
        `guided_decoding_backend`). What else depends on its backend was not tried here.
        """
        lacks = unparsed(recipe, ("tool-parser",), "reasoning-parser") | UNRECITED
        if not (recipe.config or {}).get("guided_decoding_backend"):
            lacks |= dict.fromkeys(("schema", "forced", "named"), "`config` has no guided_decoding_backend")
        return lacks | {"logprobs": "whether it has them depends on its backend, which was not tried"}

    def commands(self, recipe: Recipe, knobs: Knobs, node: Node, serving: Sequence[Node]) -> list[list[str]]:
        """The model is served under the name of its folder: a link has the name that clients use."""
        name = f"/tmp/{recipe.served_name}"
        argv = ["trtllm-serve", name, "--host", node.fabric, "--port", str(knobs.engine_port)]
        argv += ["--tp_size", "1", "--ep_size", "1", *self.placed(recipe, partial(place, recipe))]
        if self._options(recipe, partial(place, recipe)):
            argv += ["--extra_llm_api_options", f"{environment.MOUNT}/{OPTIONS}"]
        return [["ln", "-sfn", model_path(recipe), name], argv]

    def files(self, recipe: Recipe) -> dict[str, str]:
        """The extra LLM API options, in the recipe's order."""
        options = self._options(recipe, partial(place, recipe))
        return {OPTIONS: yaml.safe_dump(options, sort_keys=False)} if options else {}

    def docker(self, recipe: Recipe) -> list[str]:
        """As NVIDIA's own commands: a large stack for its threads."""
        return ["--ulimit", "memlock=-1", "--ulimit", "stack=67108864", "--cap-add", "IPC_LOCK"]

    def step_tokens(self, recipe: Recipe) -> int:
        """A chunk; a longer prompt is refused where it may not be read in chunks."""
        return count(recipe.flag("max-num-tokens"))

    def context_tokens(self, recipe: Recipe) -> int:
        """`max_seq_len`."""
        return count(recipe.flag(self.CONTEXT)) or CONTEXT_TOKENS

    def drafts(self, recipe: Recipe) -> bool:
        """By the file of options."""
        return bool((recipe.config or {}).get("speculative_config"))

    def memory(self, recipe: Recipe) -> Memory:
        """Its share is of what is free behind the weights, so it names no share of the whole."""
        requests, context = (count(recipe.flag(name)) or None for name in (self.REQUESTS, self.CONTEXT))
        return Memory(requests=requests, context=context)

    def demand(self, recipe: Recipe, parts: int) -> Demand:
        """Its weights: it asks for nothing before, and its KV cache has a share of what they leave
        (`KvCacheConfig.free_gpu_memory_fraction` in tensorrt_llm/llmapi/llm_args.py).
        """
        return Demand(gib=(recipe.weights_gib or 0.0) / parts)

    def lint(self, of: Subject) -> Iterator[Remark]:
        """By a list of its flags; 0.9 of what is free is much on unified memory ([C] against [F])."""
        for each in of.recipe.flags:
            if each.name not in _FLAGS:
                meant = nearest(each.name, _FLAGS, "say it in `config`")
                yield Remark(True, f"trtllm-serve has no flag `{each.words[0]}`", meant)
        cache = (of.recipe.config or {}).get("kv_cache_config") or {}
        share = cache.get("free_gpu_memory_fraction") if isinstance(cache, dict) else None
        if isinstance(share, int | float) and share > 0.9:
            yield Remark(False, f"free_gpu_memory_fraction is {share:g}", "0.9 or less leaves the system room")
        yield from room.fits(of)

    def judged_by(self, of: Subject) -> str:
        """A list in this file."""
        return "the flags of trtllm-serve 1.3"

    def _options(self, recipe: Recipe, place: Place) -> Json:
        statistics = {} if recipe.flag("backend") == "tensorrt" else _STATISTICS
        said = dict(recipe.config or {})
        if isinstance(drafting := said.get("speculative_config"), dict):
            named = {key: f"speculative_config.{key}" for key in _DRAFT if isinstance(drafting.get(key), str)}
            drafts = {key: place(Named(flag, drafting[key], "model")) for key, flag in named.items()}
            said["speculative_config"] = drafting | drafts
        return {**said, **{key: value for key, value in statistics.items() if key not in said}}


def _placed(flag: Flag, place: Place) -> list[str]:
    head, equals, inline = flag.words[0].partition("=")
    value = inline if equals else "".join(flag.words[1:2])
    kind = "file" if value.startswith(f"{MODEL}/") else _NAMING.get(flag.name)
    if kind is None or not value:
        return list(flag.words)
    path = place(Named(head, value, kind))
    return [f"{head}={path}"] if equals else [head, path, *flag.words[2:]]
