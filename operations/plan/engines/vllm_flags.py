"""vLLM's flags that name something to load, and those that say what a model is there for (read in 0.17 to 0.33)."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Literal

from operations.plan.engines.named import Named, Place, by_name
from operations.plan.recipes.recipe import MODEL, Answers, Flag, Kind, Recipe
from operations.wire import Json

#: Flags with one name, and what that has to be.
_NAMING: dict[str, Kind | Literal["file"]] = {
    "spec-model": "model",
    "speculative-model": "model",
    "tokenizer": "files",
    "hf-config-path": "files",
    "generation-config": "files",
    "chat-template": "file",
    "reasoning-parser-plugin": "file",
    "tool-parser-plugin": "file",
    "log-config-file": "file",
    "quantization-param-path": "file",
    "mm-encoder-fp8-scale-path": "file",
}
#: Flags that take several words, in any release; `lora-modules` are taken apart where they are placed.
SEVERAL = (
    *("allowed-media-domains", "collect-detailed-traces", "cpu-offload-params", "cudagraph-capture-sizes"),
    *("ignore-patterns", "kv-cache-dtype-skip-layers", "logits-processors", "lora-target-modules", "numa-bind-cpus"),
    *("numa-bind-nodes", "offload-params", "sleep-preserve-parameter-names"),
)
#: Values of theirs that name nothing.
_WORDS = {"generation-config": ("auto", "vllm")}
#: Ways of speculating whose `model` is a word, or is not looked at.
WITHOUT_DRAFT = ("ngram", "[ngram]", "ngram_gpu", "suffix")
#: By older names of tasks, and by how a pooled model is converted.
_TASKS: dict[str, Answers] = {
    "generate": "chat",
    "embed": "embedding",
    "embedding": "embedding",
    "score": "rerank",
    "classify": "classify",
    "reward": "reward",
    "transcription": "transcription",
    "draft": "chat",
    "token_embed": "reward",
    "token_classify": "reward",
    "encode": "reward",
    "plugin": "reward",
}


def placed(recipe: Recipe, place: Place) -> list[str]:
    """The flags' words, with what `place` says for each name; what names nothing stays as it was spelt."""
    return [word for each in recipe.flags for word in _placed(recipe, each, place)]


def adapters(recipe: Recipe) -> tuple[str, ...]:
    """Names of LoRA modules, which clients ask for as for a model."""
    modules = [each for flag in recipe.flags if flag.name == "lora-modules" for each in _modules(flag)]
    return tuple(str(each.get("name", "")) for each in modules if each.get("name"))


def configured(recipe: Recipe, *names: str) -> Json | None:
    """A configuration under any of its flag's names, from JSON and from dotted flags; None: there is none."""
    config: Json | None = None
    for flag in recipe.flags:
        if flag.name in names:
            key, value = _key(flag), "" if flag.value is True else str(flag.value)
            config = (config or {}) | ({key: value} if key else _mapping(value))
    return config


def speculative(recipe: Recipe) -> Json | None:
    """The speculative configuration, in any of its spellings; None: there is none."""
    config = configured(recipe, "speculative-config", "sc")
    for flag in recipe.flags:
        if flag.name in ("spec-method", "spec-model", "spec-tokens"):
            key = {"tokens": "num_speculative_tokens"}.get(flag.name[5:], flag.name[5:])
            config = (config or {}) | {key: str(flag.value)}
    return config


def answers(recipe: Recipe) -> Answers:
    """What the flags say, or else the model's name."""
    pooler = _mapping(str(recipe.flag("pooler-config") or "{}"))
    name = by_name(recipe)
    for said in (recipe.flag("task"), pooler.get("task"), recipe.flag("convert")):
        if said in _TASKS:
            # A cross-encoder is a classifier with one class: it scores, and so ranks.
            return "rerank" if said == "classify" and name == "rerank" else _TASKS[str(said)]
    runner = recipe.flag("runner")
    overrides = str(recipe.flag("hf-overrides") or "")
    if runner == "generate":
        return "transcription" if name == "transcription" else "chat"
    if "ForSequenceClassification" in overrides:
        return "rerank" if name == "rerank" else "classify"
    return name or ("embedding" if runner == "pooling" else "chat")


def _placed(recipe: Recipe, flag: Flag, place: Place) -> list[str]:
    head, equals, inline = flag.words[0].partition("=")
    values = [inline] if equals else list(flag.words[1:])
    if not values:
        return list(flag.words)

    def named(kind: Kind | Literal["file"], text: str, revision: str = "") -> str:
        return place(Named(head, text, kind, revision))

    if flag.name in ("speculative-config", "sc"):
        values = [_speculation(recipe, _key(flag), value, named) for value in values]
    elif flag.name == "lora-modules":
        values = [_module(each, value, named) for value in values for each, value in _spelt(value)]
    elif flag.name == "default-mm-loras":
        found = _mapping(values[0])
        values = [_dumped(values[0], found, {key: named("adapter", str(each)) for key, each in found.items()})]
    elif flag.name in _NAMING and values[0] not in _WORDS.get(flag.name, ()) and not _is_template(flag.name, values[0]):
        revision = str(recipe.flag("tokenizer-revision") or "") if flag.name == "tokenizer" else ""
        values = [named(_NAMING[flag.name], values[0], revision), *values[1:]]
    else:
        values = [named("file", value) if value.startswith(f"{MODEL}/") else value for value in values]
    return [f"{head}={values[0]}", *values[1:]] if equals else [head, *values]


def _is_template(name: str, value: str) -> bool:
    """A template in place of the path of one, as vLLM tells them apart."""
    return name == "chat-template" and any(each in value for each in "{}\n") and not value.startswith(f"{MODEL}/")


def _key(flag: Flag) -> str:
    """`model` of `--speculative-config.model`."""
    return flag.words[0].partition("=")[0].partition(".")[2].replace("-", "_")


def _speculation(recipe: Recipe, key: str, value: str, named: Callable[..., str]) -> str:
    method = str((speculative(recipe) or {}).get("method", ""))
    if key:
        names_one = key == "model" and method not in WITHOUT_DRAFT and value not in WITHOUT_DRAFT
        return named("model", value) if names_one else value
    config = _mapping(value)
    model = config.get("model")
    if not isinstance(model, str) or method in WITHOUT_DRAFT or model in WITHOUT_DRAFT:
        return value
    return _dumped(value, config, {"model": named("model", model, str(config.get("revision") or ""))})


def _modules(flag: Flag) -> list[Json]:
    values = [str(flag.value)] if "=" in flag.words[0] else list(flag.words[1:])
    return [module for value in values for module, _ in _spelt(value)]


def _spelt(value: str) -> list[tuple[Json, str]]:
    """Modules in one word, each with how it is spelt alone: `name=path`, JSON, or (a recipe's list) a list of both."""
    if value.startswith("["):
        try:
            members = json.loads(value)
        except ValueError:
            return [({}, value)]
        words = [each if isinstance(each, str) else json.dumps(each, separators=(",", ":")) for each in members]
        return [found for word in words for found in _spelt(word)]
    if "=" in value and "," not in value and not value.startswith("{"):
        name, _, path = value.partition("=")
        return [({"name": name, "path": path}, value)]
    return [(_mapping(value), value)]


def _module(module: Json, value: str, named: Callable[..., str]) -> str:
    if not isinstance(module.get("path"), str):
        return value
    path = named("adapter", module["path"])
    return _dumped(value, module, {"path": path}) if value.startswith("{") else f"{module['name']}={path}"


def _mapping(text: str) -> Json:
    try:
        found = json.loads(text)
    except ValueError:
        return {}
    return found if isinstance(found, dict) else {}


def _dumped(value: str, old: Json, new: Json) -> str:
    """JSON with some values replaced, else as it was written."""
    text = value
    for key, each in new.items():
        text = text.replace(json.dumps(old[key]), json.dumps(each), 1)
    wanted = {**old, **new}
    return text if _mapping(text) == wanted else json.dumps(wanted, separators=(",", ":"))
