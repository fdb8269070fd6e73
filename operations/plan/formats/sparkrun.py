"""Recipes of sparkrun, version 2: `defaults` as flags, or a command with {placeholders} ([F])."""

from __future__ import annotations

import json
from typing import Any

from operations.plan.engines import ENGINES
from operations.plan.formats import foreign
from operations.plan.formats.document import Document
from operations.plan.formats.serve import Served, served, take_apart
from operations.plan.formats.shell import Word
from operations.plan.formats.template import fill
from operations.plan.knobs import Topology
from operations.plan.recipe import Recipe
from operations.plan.refusal import Remark

_ENGINES = {
    **dict.fromkeys(("vllm", "vllm-ray", "vllm-distributed", "eugr-vllm", "eugr-vllm-ray"), "vllm"),
    **dict.fromkeys(("trtllm", "tensorrt-llm", "trt-llm"), "tensorrt-llm"),
}
_READ = (
    *("recipe_version", "sparkrun_version", "name", "description", "model", "model_revision", "runtime", "mods"),
    *("runtime_version", "mode", "min_nodes", "max_nodes", "container", "defaults", "env", "command"),
    *("cluster_only", "solo_only", "metadata", "pre_exec"),
)
#: Keys that Tandem answers for in another way.
_INSTEAD = {
    "executor_config": "the container's options are Tandem's own",
    "executor": "Tandem runs Docker",
    "benchmark": "Tandem does not run sparkrun's benchmarks",
    "post_exec": "left out: Tandem has no hooks after the start",
    "post_commands": "left out: Tandem has no hooks after the start",
    "stop_after_post": "left out: Tandem has no hooks after the start",
    "build_args": "build the image on the head, or set engine_image_from",
    "maintainer": "it describes, and changes nothing",
    "requirements": "Tandem checks the nodes by itself",
    "builder": "build the image on the head, or set engine_image_from",
    "builder_config": "build the image on the head, or set engine_image_from",
    "distribution_config": "Tandem copies the recipe's model and image alone; put further models into the store",
    "readiness": "Tandem waits for a token",
    "capabilities": "they describe, and change nothing",
    "unsupported_capabilities": "they describe, and change nothing",
    "runtime_cache": "Tandem keeps compiled kernels by itself",
    "scheduler": "the inventory says which nodes",
    "layout": "the topology says it",
    "cluster_config": "the inventory and the knobs say it",
}
#: Keys without which the recipe would be another one.
_REFUSED = {
    "include": "Tandem reads one file: put what it includes into this one",
    "overrides": "Tandem reads one file: put the values into `defaults`",
    "containers": "Tandem runs one image on all nodes: name it as `container`",
}
_LONG = {"tensor_parallel": "tensor-parallel-size", "pipeline_parallel": "pipeline-parallel-size"}
_LONG |= {"data_parallel": "data-parallel-size", "ep_size": "enable-expert-parallel"}
_TRT_LONG = {"tensor_parallel": "tp_size", "pipeline_parallel": "pp_size", "expert_parallel": "ep_size"}
_TRT_LONG |= {"max_model_len": "max_seq_len"}
#: vLLM turns these on by itself: false has to be said.
_ON_BY_DEFAULT = ("enable_prefix_caching", "enable_chunked_prefill", "async_scheduling", "enable_flashinfer_autotune")
#: Keys of `defaults` that go into TensorRT-LLM's file of options: section and key.
_TRT_OPTIONS = {
    "free_gpu_memory_fraction": ("kv_cache_config", "free_gpu_memory_fraction"),
    "kv_cache_dtype": ("kv_cache_config", "dtype"),
    "kv_cache_enable_block_reuse": ("kv_cache_config", "enable_block_reuse"),
    "cuda_graph_padding": ("cuda_graph_config", "enable_padding"),
    "cuda_graph_max_batch_size": ("cuda_graph_config", "max_batch_size"),
    "moe_backend": ("moe_config", "backend"),
    "print_iter_log": ("", "print_iter_log"),
}


def recipe(document: Document) -> Recipe:
    """The recipe; raises Refusal when it can't be one."""
    data = document.data
    remarks = _other_keys(data)
    defaults = foreign.as_dict(document, "defaults")
    metadata = data["metadata"] if isinstance(data.get("metadata"), dict) else {}
    defaults |= {k: v for k, v in foreign.as_dict(document, "runtime_config").items() if k not in defaults}
    runtime = str(data.get("runtime") or "vllm").lower()
    image = str(data.get("container") or "").strip()
    if not image:
        raise foreign.refuse(document, "the key `container` is missing", "add `container`")
    env = foreign.environment(foreign.as_dict(document, "env"), remarks)
    if data.get("command"):
        command = _from_command(document, defaults, env, remarks)
    elif runtime in _ENGINES:
        command = _from_defaults(str(data.get("model") or ""), _ENGINES[runtime], defaults)
    else:
        raise foreign.refuse(document, f"its runtime is `{runtime}`", f"Tandem serves with {' or '.join(ENGINES)}")
    for hook in foreign.as_list(document, "pre_exec"):
        _before(document, str(hook), env, command)
    if "served_model_name" in defaults:
        command.owned.setdefault("served-model-name", str(defaults["served_model_name"]))
    topologies, min_nodes = _nodes(document, command)
    options = _trt_options(defaults) if command.engine == "tensorrt-llm" else None
    return foreign.build(
        document,
        command,
        format="sparkrun",
        model=str(data.get("model") or ""),
        image=image,
        topologies=topologies,
        min_nodes=min_nodes,
        env=env | foreign.environment(command.env, remarks),
        remarks=remarks,
        revision=data.get("model_revision"),
        description=str(data.get("description") or metadata.get("description") or document.path.stem).strip(),
        engine_version=foreign.version_of(image),
        **foreign.mods(document, remarks, env),
        config=options or None,
    )


def _other_keys(data: dict[str, Any]) -> list[Remark]:
    remarks = [Remark(True, f"`{key}`", why) for key, why in _REFUSED.items() if data.get(key)]
    for key, value in data.items():
        if key in _READ or key in _REFUSED or key == "runtime_config" or not value:
            continue
        named = f"`{key}`" + (f" ({', '.join(map(str, value))})" if isinstance(value, dict) else "")
        remarks.append(Remark(False, named, _INSTEAD.get(key, "no key that Tandem knows: left out")))
    return remarks


def _from_command(document: Document, defaults: dict[str, Any], env: dict[str, str], remarks: list[Remark]) -> Served:
    given = {"model": document.data.get("model", ""), "container": document.data.get("container", "")}
    given |= {"port": 8000, "host": "0.0.0.0", "tensor_parallel": 1, "pipeline_parallel": 1}
    text, missing = fill(str(document.data["command"]), {**given, **defaults})
    for name in dict.fromkeys(missing):
        remarks.append(Remark(True, f"`{{{name}}}` in the command has no default", f"add `{name}` to `defaults`"))
    try:
        return served(text, env)
    except ValueError as error:
        raise foreign.refuse(document, f"command: {error}", "close it") from None


def _before(document: Document, hook: str, env: dict[str, str], command: Served) -> None:
    """A hook before the start: folders are made, anything else is refused by name."""
    try:
        found = served(hook, env)
    except ValueError as error:
        raise foreign.refuse(document, f"pre_exec: {error}", "close it") from None
    command.folders += found.folders
    command.remarks += found.remarks


def _from_defaults(model: str, engine: str, defaults: dict[str, Any]) -> Served:
    """The command that sparkrun would generate: each key is a flag."""
    found = Served(engine=engine)
    words = [Word(model)]
    for key, value in defaults.items():
        if value is None or (engine == "tensorrt-llm" and key in _TRT_OPTIONS):
            continue
        name = _TRT_LONG.get(key, key) if engine == "tensorrt-llm" else _LONG.get(key, key.replace("_", "-"))
        if value is True:
            words.append(Word(f"--{name}"))
        elif key == "ep_size":
            words += [Word("--enable-expert-parallel")] if str(value) not in ("0", "1", "False") else []
        elif value is False:
            words += [Word(f"--no-{name}")] if key in _ON_BY_DEFAULT else []
        else:
            is_json = isinstance(value, dict | list)
            text = json.dumps(value, separators=(",", ":")) if is_json else str(value)
            # As in the shell that sparkrun writes it for: blanks make words, unless it is JSON.
            values = [text] if is_json or text.startswith(("{", "[")) else text.split()
            words += [Word(f"--{name}"), *map(Word, values)]
    take_apart(engine, words, found)
    return found


def _nodes(document: Document, command: Served) -> tuple[tuple[Topology, ...], int]:
    """The topologies and the smallest cluster, from the five keys that may say it."""
    data = document.data
    try:
        least, most = int(data.get("min_nodes") or 1), int(data.get("max_nodes") or 0)
    except (TypeError, ValueError):
        raise foreign.refuse(document, "min_nodes or max_nodes is no number", "write a number of nodes") from None
    mode = str(data.get("mode") or "auto")
    if foreign.is_true(data.get("solo_only")) or mode == "solo" or most == 1:
        return ("solo", "replicas"), 1
    if foreign.is_true(data.get("cluster_only")) or mode == "cluster" or least > 1:
        return ("cluster",), max(least, command.number("tensor-parallel-size"), 2)
    return ("solo", "cluster", "replicas"), 1


def _trt_options(defaults: dict[str, Any]) -> dict[str, Any]:
    options: dict[str, Any] = {}
    for key, (section, name) in _TRT_OPTIONS.items():
        if defaults.get(key) is not None:
            (options.setdefault(section, {}) if section else options)[name] = defaults[key]
    return options
