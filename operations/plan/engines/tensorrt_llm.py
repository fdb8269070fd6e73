"""TensorRT-LLM: `trtllm-serve` with its file of extra LLM API options, one engine on one node."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from functools import partial
from typing import Any, Literal

import yaml

from operations.plan import environment
from operations.plan.addresses import model_path
from operations.plan.engines.base import CONTEXT_TOKENS, Question, Signs, count
from operations.plan.engines.named import Named, Place, place
from operations.plan.knobs import Knobs, Topology
from operations.plan.nodes import Node
from operations.plan.recipe import MODEL, Answers, Flag, Kind, Recipe

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


class TensorRtLlm:
    """`trtllm-serve`. Over two nodes it wants MPI and ssh between containers, which Tandem does not set up."""

    #: A list of what each iteration of its executor has done since somebody asked last; idle it makes none.
    SIGNS = Signs("/metrics", r'"iter": ?\d+')
    QUESTIONS: Mapping[Answers, Question] = {}
    TOPOLOGIES: tuple[Topology, ...] = ("solo", "replicas")
    PIPELINES = False
    STAGELESS = ""
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
    SEVERAL: Collection[str] = ()
    SHORT: Mapping[str, str] = {}

    def arguments(self, words: Sequence[str]) -> list[str] | None:
        """`trtllm-serve [serve] ...`, also behind its launcher for several ranks."""
        rest = list(words)
        if rest[0].rpartition("/")[2] == "trtllm-llmapi-launch":
            rest = rest[1:]
        if not rest or rest[0].rpartition("/")[2] != "trtllm-serve":
            return None
        return rest[2:] if rest[1:2] == ["serve"] else rest[1:]

    def placed(self, recipe: Recipe, place: Place) -> list[str]:
        """Tokenizer, template; a draft is in the file of options, and is told to `place` as well."""
        self._options(recipe, place)
        return [word for each in recipe.flags for word in _placed(each, place)]

    def answers(self, recipe: Recipe) -> Answers:
        """It has no other way of serving here."""
        return "chat"

    def adapters(self, recipe: Recipe) -> tuple[str, ...]:
        """None."""
        return ()

    def commands(self, recipe: Recipe, knobs: Knobs, node: Node, serving: Sequence[Node]) -> list[list[str]]:
        """The model is served under the name of its folder: a link has the name that clients use."""
        name = f"/tmp/{recipe.served_name}"
        argv = ["trtllm-serve", name, "--host", node.fabric, "--port", str(knobs.engine_port)]
        argv += ["--tp_size", "1", "--ep_size", "1", *self.placed(recipe, partial(place, recipe))]
        if self._options(recipe, partial(place, recipe)):
            argv += ["--extra_llm_api_options", f"{environment.MOUNT}/{OPTIONS}"]
        return [["ln", "-sfn", model_path(recipe), name], argv]

    def environment(self, recipe: Recipe) -> dict[str, str]:
        """Nothing of its own."""
        return {"DO_NOT_TRACK": "1"}

    def files(self, recipe: Recipe) -> dict[str, str]:
        """The extra LLM API options, in the recipe's order."""
        options = self._options(recipe, partial(place, recipe))
        return {OPTIONS: yaml.safe_dump(options, sort_keys=False)} if options else {}

    def docker(self, recipe: Recipe) -> list[str]:
        """As NVIDIA's own commands: a large stack for its threads."""
        return ["--ulimit", "memlock=-1", "--ulimit", "stack=67108864", "--cap-add", "IPC_LOCK"]

    def share(self, recipe: Recipe) -> float:
        """Its own share is of what is free when the weights are loaded: it says nothing of the whole."""
        return 0.0

    def with_share(self, recipe: Recipe, share: float) -> Recipe:
        """As it is, for the same reason: what it takes is the recipe's matter."""
        return recipe

    def step_tokens(self, recipe: Recipe) -> int:
        """A chunk; a longer prompt is refused where it may not be read in chunks."""
        return count(recipe.flag("max-num-tokens"))

    def context_tokens(self, recipe: Recipe) -> int:
        """`max_seq_len`."""
        return count(recipe.flag("max-seq-len")) or CONTEXT_TOKENS

    def _options(self, recipe: Recipe, place: Place) -> dict[str, Any]:
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
