"""Recipes of sparkrun, version 2: `defaults` as flags, or a command with {placeholders} ([F])."""

from __future__ import annotations

import re
from fnmatch import fnmatchcase
from typing import Any

from operations.plan.config.refusal import Remark
from operations.plan.engines import ENGINES
from operations.plan.engines.base import Sparkrun
from operations.plan.recipes.formats import foreign, given, parallel, serve, sparkrun_env, variables
from operations.plan.recipes.formats.document import Document
from operations.plan.recipes.formats.filling import filled
from operations.plan.recipes.formats.serve import served, take_apart
from operations.plan.recipes.formats.served_command import Served
from operations.plan.recipes.formats.shell import Word
from operations.plan.recipes.formats.sparkrun_flags import CONSUMED, left_out, words
from operations.plan.recipes.formats.template import fill
from operations.plan.recipes.recipe import REPOSITORY, Model, Recipe
from operations.wire import Json

_READ = (
    *("recipe_version", "sparkrun_version", "name", "description", "model", "model_revision", "runtime", "mods"),
    *("runtime_version", "mode", "min_nodes", "max_nodes", "container", "defaults", "env", "command"),
    *("cluster_only", "solo_only", "metadata", "pre_exec"),
)
#: Keys that Tandem answers for in another way.
INSTEAD = {
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
    "distribution_config": "the models that flags name are fetched, and copied to each node",
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
    "overrides": "Tandem reads one file: put the values into `defaults`",
    "containers": "Tandem runs one image on all nodes: name it as `container`",
}


def recipe(document: Document) -> Recipe:
    """The recipe; raises Refusal when it can't be one."""
    data = document.data
    engine = _engine(document)
    made = ENGINES[engine].SPARKRUN
    remarks = _other_keys(data, made)
    # A default without a value is none: what names it is left as it is written.
    given_defaults = foreign.as_dict(document, "defaults").items()
    defaults = {name: _unescaped(value) for name, value in given_defaults if value is not None}
    template = given.text(document, "command")
    for key, other in made.same.items():
        if key in defaults and f"{{{key}}}" not in template:
            defaults.setdefault(other, defaults.pop(key))
    metadata = data["metadata"] if isinstance(data.get("metadata"), dict) else {}
    env = foreign.environment(sparkrun_env.filled(foreign.as_dict(document, "env"), defaults, remarks), remarks)
    remarks += _without_effect(foreign.as_dict(document, "runtime_config"))
    try:
        if template:
            command = served(_filled(document, template, defaults, remarks), env)
        else:
            command = _from_defaults(str(data.get("model") or ""), engine, defaults, env, remarks)
    except ValueError as error:
        raise given.refuse(document, f"command: {error}", "close it") from None
    for hook in foreign.as_list(document, "pre_exec"):
        _before(document, hook, defaults, env, command)
    if "served_model_name" in defaults:
        command.owned.setdefault("served-model-name", str(defaults["served_model_name"]))
    runs = ENGINES[engine]
    if runs.PIPELINES and "pipeline_parallel" in defaults and (stages := runs.COUNTED[0]) not in command.owned:
        # sparkrun counts nodes by it, whether or not the command has a place for it.
        said = {stages: str(defaults["pipeline_parallel"])}
        command.owned |= said
        command.remarks += parallel.remarks(runs, said, {stages: "pipeline_parallel:"})
    solo_only, cluster_only, least = _nodes(document, remarks)
    options = _options(defaults, ENGINES[command.engine].SPARKRUN) if command.engine else {}
    return foreign.build(
        document,
        command,
        format="sparkrun",
        model=str(data.get("model") or ""),
        solo_only=solo_only,
        cluster_only=cluster_only,
        gpus=command.gpus if runs.SPLIT else parallel.wished(defaults),
        least=least,
        env=env | foreign.environment(command.env, remarks),
        remarks=remarks,
        otherwise=ENGINES[command.engine or engine].SPARKRUN.image_of(str(data.get("runtime") or "")),
        further_models=_distributed(document, defaults),
        revision=data.get("model_revision"),
        description=str(data.get("description") or metadata.get("description") or document.path.stem).strip(),
        **foreign.mods(document, remarks, env),
        config=options or None,
    )


def _distributed(document: Document, defaults: Json) -> tuple[Model, ...]:
    """The models that the recipe has copied to the nodes: commit and files where it says them. Raises Refusal."""
    config = given.mapping(document.data.get("distribution_config"))
    entries = given.listed(given.mapping(config.get("models")).get("entries"))
    values = {"model": document.data.get("model"), **defaults}
    found: dict[str, Model] = {}
    for each in (*entries, *given.listed(config.get("additional_models"))):
        entry = each if isinstance(each, dict) else {"name": each}
        name, revision = fill(str(entry.get("name")), values)[0], str(entry.get("revision") or "")
        if re.fullmatch(REPOSITORY, name):
            patterns = map(str, given.listed(entry.get("allow_patterns")))
            files = tuple(pattern for pattern in patterns if re.fullmatch(r"[^\s/]\S*", pattern))
            commit = revision if re.fullmatch("[0-9a-f]{40}", revision) else None
            model = Model(repo=name, revision=commit, files=files)
            found[name] = _united(document, found.get(name, model), model)
    return tuple(found.values())


def _united(document: Document, one: Model, other: Model) -> Model:
    """A model that is listed twice: all files of both, at the one commit that is said."""
    commit = one.revision or other.revision
    if other.revision not in (None, commit):
        problem = f"distribution_config: {one.repo} has two revisions, {commit} and {other.revision}"
        raise given.refuse(document, problem, "write one of them")
    files = dict.fromkeys((*one.files, *other.files)) if one.files and other.files else ()
    return one.model_copy(update={"revision": commit, "files": tuple(files)})


def _engine(document: Document) -> str:
    """By the name that sparkrun has for it."""
    runtime = str(document.data.get("runtime") or "vllm").strip().lower()
    for name, runs in ENGINES.items():
        if any(fnmatchcase(runtime, each) for each in runs.SPARKRUN.runtimes):
            return name
    remedy = f"Tandem serves with {' or '.join(ENGINES)}: choose a recipe of one of them"
    raise given.refuse(document, f"its runtime is `{runtime}`", remedy)


def _other_keys(data: Json, made: Sparkrun) -> list[Remark]:
    remarks = [Remark(True, f"`{key}`", why) for key, why in _REFUSED.items() if data.get(key)]
    for key, value in data.items():
        if key in _READ or key in _REFUSED or key == "runtime_config" or not value:
            continue
        if key in made.known:
            problem = f"`{key}` beside `defaults` is no flag that sparkrun makes: left out"
            remarks.append(Remark(False, problem, f"write `{key}` under `defaults`"))
            continue
        named = f"`{key}`" + (f" ({', '.join(map(str, value))})" if isinstance(value, dict) else "")
        remarks.append(Remark(False, named, INSTEAD.get(key, "no key that Tandem knows: left out")))
    return remarks


def _unescaped(value: Any) -> Any:
    """A default's doubled braces are one each where `{{` occurs, as in a command."""
    if isinstance(value, str) and "{{" in value:
        return value.replace("{{", "{").replace("}}", "}")
    return value


def _filled(document: Document, command: str, defaults: Json, remarks: list[Remark]) -> str:
    model = document.data.get("model") or ""
    # Those of the plan's own flags: what a recipe says of them does not matter.
    beside = {"port": 8000, "host": "0.0.0.0", "tensor_parallel": 1, "pipeline_parallel": 1}
    beside |= {"model": model, "resolved_model_path": model} if model else {}
    if revision := document.data.get("model_revision"):
        beside["model_revision"] = revision
    return filled(command, defaults, beside, fill, remarks, CONSUMED)


def _before(document: Document, hook: Any, defaults: Json, env: dict[str, str], command: Served) -> None:
    """A hook before the start; one that copies would copy from the machine that launches."""
    if isinstance(hook, dict) and isinstance(hook.get("command"), str):
        hook = hook["command"]
    if not isinstance(hook, str):
        what = f"copies `{hook['copy']}`" if isinstance(hook, dict) and "copy" in hook else "is no command"
        command.remarks.append(Remark(True, f"a hook before the start {what}", "bring the file by a mod"))
        return
    model = {"model": document.data["model"]} if document.data.get("model") else {}
    try:
        serve.hook(fill(hook, {**model, **defaults})[0], env, command)
    except ValueError as error:
        raise given.refuse(document, f"pre_exec: {error}", "close it") from None


def _from_defaults(model: str, engine: str, defaults: Json, env: dict[str, str], remarks: list[Remark]) -> Served:
    """The command that sparkrun would generate."""
    found = Served(engine=engine)
    made = ENGINES[engine].SPARKRUN
    defaults = {**defaults, **{key: value for key, value in made.otherwise.items() if key not in defaults}}
    flags = [variables.expanded(word, env) for word in words(defaults, made)]
    take_apart(engine, [Word(model), *flags], found)
    remarks += left_out(defaults, made)
    return found


def _without_effect(runtime_config: Json) -> list[Remark]:
    """sparkrun reads four names of `runtime_config` and makes flags of none."""
    return [
        Remark(False, f"`{key}` under `runtime_config` is no flag that sparkrun makes: left out", "see `defaults`")
        for key in runtime_config
        if key not in ("mods", "build_args", "dashboard", "mmproj")
    ]


def _nodes(document: Document, remarks: list[Remark]) -> tuple[bool, bool, int]:
    """Whether it is for one node alone, whether for a cluster alone, and of how many nodes, from the five keys."""
    least, most = given.node_count(document, "min_nodes") or 1, given.node_count(document, "max_nodes")
    if most is not None and least > most:
        problem = f"min_nodes is {least} and max_nodes {most}: no number of nodes is both"
        raise given.refuse(document, problem, "correct one of them")
    mode = given.mode(document)
    solo_only, cluster_only = (given.truth(document, key) for key in ("solo_only", "cluster_only"))
    is_solo = solo_only or mode == "solo" or most == 1
    is_cluster = cluster_only or mode == "cluster" or least > 1
    if is_solo and is_cluster:
        said = [key for key in ("solo_only", "cluster_only", "mode", "min_nodes", "max_nodes") if key in document.data]
        problem = f"it is for one node alone and for a cluster alone at once ({', '.join(said)})"
        raise given.refuse(document, problem, "remove one of them")
    if most is not None and most > 1:
        remarks.append(Remark(False, f"max_nodes: {most}", "a cluster has all nodes of the inventory: list so many"))
    return is_solo, is_cluster, least


def _options(defaults: Json, made: Sparkrun) -> Json:
    """The engine's own file of options."""
    options: Json = {}
    for key, (section, name) in made.options.items():
        if defaults.get(key) is not None:
            (options.setdefault(section, {}) if section else options)[name] = defaults[key]
    return options
