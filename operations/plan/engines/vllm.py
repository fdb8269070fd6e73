"""vLLM: one process, the ranks of a Ray cluster, or the ranks of its own launcher."""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping, Sequence
from functools import partial

from operations.plan import environment, ray
from operations.plan.addresses import model_path
from operations.plan.engines import vllm_flags
from operations.plan.engines.base import CONTEXT_TOKENS, Question, Signs, count
from operations.plan.engines.named import Place, place
from operations.plan.knobs import Knobs, Topology
from operations.plan.nodes import Node
from operations.plan.recipe import Answers, Flag, Recipe

#: Of a node's memory, where nobody says another one (0.32: `gpu_memory_utilization` of its cache configuration).
_SHARE = 0.92


class Vllm:
    """`vllm serve`."""

    #: The counters move with the first token of an answer and each later one; in the prefill of a long prompt only the
    #: gauges do, which its core tells after each step (0.32: scheduler.py's make_stats, recorded also without outputs).
    SIGNS = Signs(
        "/metrics",
        r"^vllm:(?:prompt_tokens_total|generation_tokens_total|iteration_tokens_total_count|kv_cache_usage_perc"
        r"|num_requests_running|num_requests_waiting)(?:\{.*\})? \S+$",
    )
    #: LiteLLM has no way for `/classify` and `/pooling`, and a transcription wants a recording.
    QUESTIONS: Mapping[Answers, Question] = {
        "embedding": Question("/v1/embeddings", {"input": "Hi"}, r'"embedding": ?\[ ?-?\d'),
        "rerank": Question("/v1/rerank", {"query": "Hi", "documents": ["Hello"]}, r'"relevance_score": ?-?\d'),
    }
    TOPOLOGIES: tuple[Topology, ...] = ("solo", "cluster", "replicas")
    PIPELINES = True
    #: Encoders: of those, none can hand on from one stage to the next (0.32: classes that are no `SupportsPP`).
    STAGELESS = r"Bert|Roberta|^Gte|^CLIP|^Siglip"
    OWNED: Mapping[str, str] = {
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
    SEVERAL: Collection[str] = vllm_flags.SEVERAL
    SHORT: Mapping[str, str] = {
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

    def placed(self, recipe: Recipe, place: Place) -> list[str]:
        """Drafts, tokenizers, templates, parsers' plugins, adapters."""
        return vllm_flags.placed(recipe, place)

    def answers(self, recipe: Recipe) -> Answers:
        """By `runner`, `convert`, `task` and `pooler-config`."""
        return vllm_flags.answers(recipe)

    def adapters(self, recipe: Recipe) -> tuple[str, ...]:
        """LoRA modules."""
        return vllm_flags.adapters(recipe)

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

    def environment(self, recipe: Recipe) -> dict[str, str]:
        """No telemetry; on unified memory segments that can grow keep 6 GiB more free."""
        quiet = {"VLLM_NO_USAGE_STATS": "1", "DO_NOT_TRACK": "1"}
        return quiet | ({"PYTORCH_CUDA_ALLOC_CONF": "expandable_segments:True"} if recipe.needs.gpu else {})

    def files(self, recipe: Recipe) -> dict[str, str]:
        """None: flags say everything."""
        return {}

    def docker(self, recipe: Recipe) -> list[str]:
        """RDMA registers memory."""
        return ["--ulimit", "memlock=-1", "--cap-add", "IPC_LOCK"]

    def share(self, recipe: Recipe) -> float:
        """`gpu-memory-utilization`."""
        said = str(recipe.flag("gpu-memory-utilization") or _SHARE)
        return float(said) if re.fullmatch(r"[01]?\.\d+|[01]", said) else 0.0

    def with_share(self, recipe: Recipe, share: float) -> Recipe:
        """The same flag; a KV cache whose bytes the recipe pins stays as it is."""
        others = tuple(each for each in recipe.flags if each.name != "gpu-memory-utilization")
        word = Flag(name="gpu-memory-utilization", words=("--gpu-memory-utilization", f"{share:.3f}"))
        return recipe.model_copy(update={"flags": (*others, word)})

    def step_tokens(self, recipe: Recipe) -> int:
        """A chunk; a whole prompt where it is told to read prompts at once."""
        chunk, chunked = count(recipe.flag("max-num-batched-tokens")), recipe.flag("enable-chunked-prefill")
        is_whole = recipe.flag("no-enable-chunked-prefill") or chunked in ("False", "false")
        return max(chunk, self.context_tokens(recipe)) if is_whole else chunk

    def context_tokens(self, recipe: Recipe) -> int:
        """`max-model-len`."""
        return count(recipe.flag("max-model-len")) or CONTEXT_TOKENS

    def _serve(self, recipe: Recipe, knobs: Knobs, node: Node, ranks: int) -> list[str]:
        """One engine of so many ranks, as it is called on this node."""
        stages = ["--pipeline-parallel-size", str(knobs.stages)] if knobs.stages > 1 else []
        return [
            *(recipe.program or ("vllm", "serve")),
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
