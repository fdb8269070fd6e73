"""TensorRT-LLM: `trtllm-serve` with its file of extra LLM API options, one engine on one node."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import yaml

from operations.plan import environment
from operations.plan.addresses import engine_address, model_path
from operations.plan.engines.base import CONTEXT_TOKENS, Signs, count, with_model
from operations.plan.knobs import Knobs, Topology
from operations.plan.nodes import Node
from operations.plan.recipe import Recipe

OPTIONS = "extra-llm-api-config.yml"
#: Without it /metrics is an empty list. Its TensorRT backend counts always, and does not know the option.
_STATISTICS = {"enable_iter_perf_stats": True}


class TensorRtLlm:
    """`trtllm-serve`. Over two nodes it wants MPI and ssh between containers, which Tandem does not set up."""

    #: A list of what each iteration of its executor has done since somebody asked last; idle it makes none.
    SIGNS = Signs("/metrics", r'"iter": ?\d+')
    TOPOLOGIES: tuple[Topology, ...] = ("solo", "replicas")
    OWNED: Mapping[str, str] = {
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
    SHORT: Mapping[str, str] = {}

    def arguments(self, words: Sequence[str]) -> list[str] | None:
        """`trtllm-serve [serve] ...`, also behind its launcher for several ranks."""
        rest = list(words)
        if rest[0].rpartition("/")[2] == "trtllm-llmapi-launch":
            rest = rest[1:]
        if not rest or rest[0].rpartition("/")[2] != "trtllm-serve":
            return None
        return rest[2:] if rest[1:2] == ["serve"] else rest[1:]

    def commands(self, recipe: Recipe, knobs: Knobs, node: Node, serving: Sequence[Node]) -> list[list[str]]:
        """The model is served under the name of its folder: a link has the name that clients use."""
        name = f"/tmp/{recipe.served_name}"
        argv = ["trtllm-serve", name, "--host", engine_address(knobs, node), "--port", str(knobs.engine_port)]
        argv += ["--tp_size", "1", "--ep_size", "1", *with_model(recipe, model_path(recipe))]
        if self._options(recipe):
            argv += ["--extra_llm_api_options", f"{environment.MOUNT}/{OPTIONS}"]
        return [["ln", "-sfn", model_path(recipe), name], argv]

    def environment(self, recipe: Recipe) -> dict[str, str]:
        """Nothing of its own."""
        return {"DO_NOT_TRACK": "1"}

    def files(self, recipe: Recipe) -> dict[str, str]:
        """The extra LLM API options, in the recipe's order."""
        options = self._options(recipe)
        return {OPTIONS: yaml.safe_dump(options, sort_keys=False)} if options else {}

    def docker(self, recipe: Recipe) -> list[str]:
        """As NVIDIA's own commands: a large stack for its threads."""
        return ["--ulimit", "memlock=-1", "--ulimit", "stack=67108864", "--cap-add", "IPC_LOCK"]

    def step_tokens(self, recipe: Recipe) -> int:
        """A chunk; a longer prompt is refused where it may not be read in chunks."""
        return count(recipe.flag("max-num-tokens"))

    def context_tokens(self, recipe: Recipe) -> int:
        """`max_seq_len`."""
        return count(recipe.flag("max-seq-len")) or CONTEXT_TOKENS

    def _options(self, recipe: Recipe) -> dict[str, Any]:
        statistics = {} if recipe.flag("backend") == "tensorrt" else _STATISTICS
        said = recipe.config or {}
        return {**said, **{key: value for key, value in statistics.items() if key not in said}}
