"""vLLM: one process, the ranks of a Ray cluster, or the ranks of its own launcher."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from typing import Any

from operations.plan.cluster import environment, ray
from operations.plan.cluster.addresses import model_path
from operations.plan.cluster.nodes import Node
from operations.plan.config.knobs import Knobs
from operations.plan.config.refusal import Remark
from operations.plan.engines import vllm_caches, vllm_flags, vllm_loaders, vllm_starts
from operations.plan.engines.abilities import unparsed
from operations.plan.engines.base import (
    CONTEXT_TOKENS,
    Demand,
    Engine,
    Memory,
    Question,
    Signs,
    count,
    share,
    size,
)
from operations.plan.engines.named import Place, place
from operations.plan.engines.vllm_lint import caches, refused, rules, seen, stages, versions, words
from operations.plan.engines.vllm_sparkrun import SPARKRUN
from operations.plan.recipes.lint.subject import Subject
from operations.plan.recipes.recipe import Answers, Forbidden, Recipe

_CHECKS: tuple[Callable[[Subject], Iterator[Remark]], ...] = (
    *(words.variables, words.flags, words.parsers, words.kernels, versions.variables),
    *(rules.plugins, rules.disabled_kernels, rules.memory, rules.fits, rules.needs, rules.blocks, rules.eager),
    *(rules.speculation, rules.ray, refused.refused, seen.seen, caches.alike),
    *(stages.wish, stages.speculation, stages.partition),
)


class Vllm(Engine):
    """`vllm serve`."""

    TITLE = "vLLM"
    PROGRAM = ("vllm", "serve")
    #: The counters move with the first token of an answer and each later one; in the prefill of a long prompt only the
    #: gauges do, which its core tells after each step (0.32: scheduler.py's make_stats, recorded also without outputs).
    SIGNS = Signs(
        "/metrics",
        r"^vllm:(?:prompt_tokens_total|generation_tokens_total|iteration_tokens_total_count|kv_cache_usage_perc"
        r"|num_requests_running|num_requests_waiting)(?:\{.*\})? \S+$",
    )
    #: LiteLLM has no way for `/classify` and `/pooling`, and a transcription wants a recording.
    QUESTIONS = {
        "embedding": Question("/v1/embeddings", {"input": "Hi"}, r'"embedding": ?\[ ?-?\d'),
        "rerank": Question("/v1/rerank", {"query": "Hi", "documents": ["Hello"]}, r'"relevance_score": ?-?\d'),
    }
    TOPOLOGIES = ("solo", "cluster", "replicas")
    WEIGHTS = "model"
    PACKAGE = "vllm"
    PIPELINES = True
    #: Encoders: of those, none can hand on from one stage to the next (0.32: classes that are no `SupportsPP`).
    STAGELESS = r"Bert|Roberta|^Gte|^CLIP|^Siglip"
    EXECUTORS = ("ray", "mp")
    OWNED = {
        "model": "`model.repo` says it",
        "revision": "`model.revision` says it",
        "download-dir": "the knob `model_store` says it",
        "host": "the engine binds to the fabric or loopback",
        "port": "the knob `engine_port` says it",
        "served-model-name": "`served_name` says it",
        "tensor-parallel-size": "it follows from the number of nodes and `pipeline_parallel`",
        "pipeline-parallel-size": "the knob `pipeline_parallel` says it",
        "data-parallel-size": "the topology `replicas` is the way to serve in parallel",
        "distributed-executor-backend": "the knob `executor` says it",
        "nnodes": "it is the number of nodes in the inventory",
        "node-rank": "it follows from the node's place in the inventory",
        "master-addr": "it is the head's fabric address",
        "master-port": "the knob `cluster_ports` says it",
        "headless": "the workers' ranks have it by themselves",
        "api-key": "a key in argv can be read by everybody; the proxy has the key",
        "hf-token": "the knob `hub_token_file` says it",
        "config": "the recipe is the one place for flags",
    }
    IGNORED_FOREIGN_FLAGS = (
        *("model", "download-dir", "host", "port", "served-model-name", "tensor-parallel-size", "hf-token", "api-key"),
        *("distributed-executor-backend", "nnodes", "node-rank", "master-addr", "master-port", "headless"),
    )
    TAKES = {"served-model-name": 100, "headless": 0}
    SHARE = "gpu-memory-utilization"
    SPLIT = "tensor-parallel-size"
    COUNTED = ("pipeline-parallel-size", "data-parallel-size")
    REQUESTS = "max-num-seqs"
    CONTEXT = "max-model-len"
    SEVERAL = vllm_flags.SEVERAL
    SHORT = {
        "tp": "tensor-parallel-size",
        "pp": "pipeline-parallel-size",
        "dp": "data-parallel-size",
        "dpn": "data-parallel-rank",
        "dpl": "data-parallel-size-local",
        "dpa": "data-parallel-address",
        "dpp": "data-parallel-rpc-port",
        "dcp": "decode-context-parallel-size",
        "pcp": "prefill-context-parallel-size",
        "ep": "enable-expert-parallel",
        "q": "quantization",
        "n": "nnodes",
        "r": "node-rank",
        "sc": "speculative-config",
        "cc": "compilation-config",
        "ac": "attention-config",
        "asc": "api-server-count",
        "O": "optimization-level",
    }
    IMAGES = ("vllm/vllm-openai",)
    PLACES = ("/vllm-workspace/",)
    HERE = ("examples/",)
    #: It asks a route to the internet for its address otherwise, and takes Wi-Fi or management.
    ADDRESS = ("VLLM_HOST_IP",)
    SPARKRUN = SPARKRUN
    FORBIDDEN = (
        Forbidden(
            pattern=r"(?i)CUDA graph (pool )?memory:? *-\d",
            meaning="the estimate is negative and the KV cache that much too large: unified memory will run out, and "
            "the node freeze; pin kv-cache-memory-bytes",
        ),
    )
    #: It aborts all requests and kills its core within 0.2 s of a SIGTERM; then it waits for the connections of those
    #: that it has aborted, without an end (measured under load: 20 s of 20).
    STOP_S = 1
    METRICS = "vllm:"
    PANELS = {
        "running": "vllm:num_requests_running",
        "waiting": "vllm:num_requests_waiting",
        "tokens_out": "vllm:generation_tokens_total",
        "tokens_in": "vllm:prompt_tokens_total",
        "first_token": "vllm:time_to_first_token_seconds",
        "between_tokens": "vllm:inter_token_latency_seconds",
        "prefix_found": "vllm:prefix_cache_hits_total",
        "prefix_asked": "vllm:prefix_cache_queries_total",
        "kv_fill": "vllm:kv_cache_usage_perc",
    }
    COUNTERS = {
        "requests": ("vllm:request_success",),
        "prompt_tokens": ("vllm:prompt_tokens",),
        "answer_tokens": ("vllm:generation_tokens",),
        "prefix_asked": ("vllm:prefix_cache_queries", "vllm:gpu_prefix_cache_queries"),
        "prefix_found": ("vllm:prefix_cache_hits", "vllm:gpu_prefix_cache_hits"),
        "preemptions": ("vllm:num_preemptions",),
    }
    CACHES = vllm_caches.CACHES
    STARTS = vllm_starts.STARTS
    LOADERS = vllm_loaders.LOADERS
    LOADS = vllm_loaders.LOADS
    VOCABULARY = ("annotations", "arguments", "vocabulary")

    def arguments(self, words: Sequence[str]) -> list[str] | None:
        """`vllm serve ...`, or the module that it runs."""
        program = words[0].rpartition("/")[2]
        # Images of others wrap it: `/usr/local/bin/dsv4-vllm-entrypoint serve`.
        if "vllm" in program and list(words[1:2]) == ["serve"]:
            return list(words[2:])
        modules = ("vllm.entrypoints.openai.api_server", "vllm.entrypoints.cli.main")
        if program.startswith("python") and list(words[1:2]) == ["-m"] and "".join(words[2:3]) in modules:
            return [word for word in words[3:] if word != "serve"]
        return None

    def program(self, called: Sequence[str]) -> list[str]:
        """Those of a virtual environment, or of a wrapper."""
        return list(called) if list(called[1:]) == ["serve"] and called[0] != "vllm" else []

    def placed(self, recipe: Recipe, place: Place) -> list[str]:
        """Drafts, tokenizers, templates, parsers' plugins, adapters."""
        return vllm_flags.placed(recipe, place)

    def answers(self, recipe: Recipe) -> Answers:
        """By `runner`, `convert`, `task` and `pooler-config`."""
        return vllm_flags.answers(recipe)

    def adapters(self, recipe: Recipe) -> tuple[str, ...]:
        """LoRA modules."""
        return vllm_flags.adapters(recipe)

    def continues(self, recipe: Recipe) -> Mapping[str, Any] | None:
        """The last message stays open."""
        return {"continue_final_message": True, "add_generation_prompt": False}

    def lacks(self, recipe: Recipe) -> Mapping[str, str]:
        """Calls and thoughts, where no parser is named."""
        return unparsed(recipe, ("enable-auto-tool-choice", "tool-call-parser"), "reasoning-parser")

    def commands(self, recipe: Recipe, knobs: Knobs, node: Node, serving: Sequence[Node]) -> list[list[str]]:
        """One engine; or a rank: with Ray the worker only joins, without it each serves its share."""
        head, ranks = serving[0], len(serving)
        if knobs.topology != "cluster":
            return [self._serve(recipe, knobs, node, 1)]
        if knobs.executor == "mp":
            return [self._rank(recipe, knobs, head, node.place, ranks)]
        if not node.leads:
            return [ray.ray_start(knobs, node, head)]
        return [
            ray.ray_start(knobs, node, head),
            ["python3", f"{environment.MOUNT}/ray_nodes.py", str(ranks)],
            [*self._serve(recipe, knobs, head, ranks), "--distributed-executor-backend", "ray"],
        ]

    def environment(self, recipe: Recipe, knobs: Knobs) -> dict[str, str]:
        """No telemetry; on unified memory segments that can grow keep 6 GiB more free. Hosts that `media_domains` names
        send nobody elsewhere: vLLM would follow them into the node's own network.
        """
        quiet = {"VLLM_NO_USAGE_STATS": "1"}
        if knobs.media_domains:
            quiet["VLLM_MEDIA_URL_ALLOW_REDIRECTS"] = "0"
        # A KV connector registers its memory, which such segments can move: vLLM 0.22 and newer refuse the two.
        connects = any(recipe.flag(name) is not None for name in ("kv-transfer-config", "kv-offloading-size"))
        grows = recipe.needs.gpu and not connects
        return quiet | ({"PYTORCH_CUDA_ALLOC_CONF": "expandable_segments:True"} if grows else {})

    def step_tokens(self, recipe: Recipe) -> int:
        """A chunk; a whole prompt where it is told to read prompts at once."""
        chunk, chunked = count(recipe.flag("max-num-batched-tokens")), recipe.flag("enable-chunked-prefill")
        is_whole = recipe.flag("no-enable-chunked-prefill") or chunked in ("False", "false")
        return max(chunk, self.context_tokens(recipe)) if is_whole else chunk

    def context_tokens(self, recipe: Recipe) -> int:
        """`max-model-len`."""
        return count(recipe.flag(self.CONTEXT)) or CONTEXT_TOKENS

    def drafts(self, recipe: Recipe) -> bool:
        """By the speculative configuration, in any of its spellings."""
        return vllm_flags.speculative(recipe) is not None

    def memory(self, recipe: Recipe) -> Memory:
        """By its four flags for it, and `kv-cache-dtype`."""
        requests = str(recipe.flag(self.REQUESTS) or "")
        return Memory(
            share(recipe.flag("gpu-memory-utilization")),
            size(recipe.flag("kv-cache-memory-bytes")),
            str(recipe.flag("kv-cache-dtype") or ""),
            int(requests) if requests.isdigit() else None,
            int(size(recipe.flag(self.CONTEXT)) or 0) or None,
        )

    def demand(self, recipe: Recipe, parts: int) -> Demand:
        """Its share of the whole, whatever is pinned beside it: it ends where less is free (`request_memory` in
        v1/worker/utils.py, 0.17 to 0.33).
        """
        said = recipe.flag(self.SHARE)
        return Demand(share=rules.default_share(recipe.engine_version) if said is None else share(said) or 0.0)

    def lint(self, of: Subject) -> Iterator[Remark]:
        """By its vocabulary, and by rules."""
        for check in _CHECKS:
            yield from check(of)

    def judged_by(self, of: Subject) -> str:
        """A release's vocabulary, or those of all."""
        return of.who if of.version else f"{of.who}, because its own version is not known"

    def _serve(self, recipe: Recipe, knobs: Knobs, node: Node, ranks: int) -> list[str]:
        """One engine of so many ranks, as it is called on this node."""
        stages = ["--pipeline-parallel-size", str(knobs.stages)] if knobs.stages > 1 else []
        return [
            *(recipe.program or self.PROGRAM),
            *(model_path(recipe), "--served-model-name", recipe.served_name),
            *("--host", node.fabric, "--port", str(knobs.engine_port)),
            *("--tensor-parallel-size", str(ranks // knobs.stages), *stages),
            *self.placed(recipe, partial(place, recipe)),
        ]

    def _rank(self, recipe: Recipe, knobs: Knobs, head: Node, rank: int, ranks: int) -> list[str]:
        """One rank of a cluster that vLLM's own launcher joins."""
        argv = self._serve(recipe, knobs, head, ranks)
        argv += ["--distributed-executor-backend", "mp", "--nnodes", str(ranks), "--node-rank", str(rank)]
        argv += ["--master-addr", head.fabric, "--master-port", str(knobs.port("master"))]
        return argv if rank == 0 else [*argv, "--headless"]
