"""TensorRT-LLM: `trtllm-serve` with its file of extra LLM API options, one engine on one node."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import yaml

from operations.plan import environment
from operations.plan.addresses import engine_address, model_path
from operations.plan.engines.base import with_model
from operations.plan.knobs import Knobs, Topology
from operations.plan.nodes import Node
from operations.plan.recipe import Recipe

OPTIONS = "extra-llm-api-config.yml"


class TensorRtLlm:
    """`trtllm-serve`. Over two nodes it wants MPI and ssh between containers, which Tandem does not set up."""

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
        if recipe.config is not None:
            argv += ["--extra_llm_api_options", f"{environment.MOUNT}/{OPTIONS}"]
        return [["ln", "-sfn", model_path(recipe), name], argv]

    def environment(self, recipe: Recipe) -> dict[str, str]:
        """Nothing of its own."""
        return {"DO_NOT_TRACK": "1"}

    def files(self, recipe: Recipe) -> dict[str, str]:
        """The extra LLM API options, in the recipe's order."""
        if recipe.config is None:
            return {}
        return {OPTIONS: yaml.safe_dump(recipe.config, sort_keys=False)}

    def docker(self, recipe: Recipe) -> list[str]:
        """As NVIDIA's own commands: a large stack for its threads."""
        return ["--ulimit", "memlock=-1", "--ulimit", "stack=67108864", "--cap-add", "IPC_LOCK"]
