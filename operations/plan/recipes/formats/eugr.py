"""Recipes of eugr/spark-vllm-docker and its forks: a container, and a command with {placeholders} ([F])."""

from __future__ import annotations

import re

from operations.plan.config.refusal import Remark, nearest
from operations.plan.recipes.formats import foreign, given, sparkrun
from operations.plan.recipes.formats.document import Document
from operations.plan.recipes.formats.filling import filled
from operations.plan.recipes.formats.serve import served
from operations.plan.recipes.formats.served_command import Served
from operations.plan.recipes.formats.template import fill_like_format
from operations.plan.recipes.recipe import Recipe
from operations.wire import Json

KEYS = (
    *("name", "recipe_version", "container", "command", "description", "model", "mods"),
    *("defaults", "env", "build_args", "cluster_only", "solo_only", "model_revision"),
)

#: Keys of sparkrun's that run-recipe.py does not read.
INSTEAD = {
    **sparkrun.INSTEAD,
    "distribution_config": "left out, as run-recipe.py does: a commit or a file that it lists does not count",
}


def recipe(document: Document) -> Recipe:
    """The recipe; raises Refusal when it can't be one."""
    data = document.data
    remarks: list[Remark] = []
    for key in data:
        if key not in KEYS:
            known = INSTEAD.get(key) or nearest(key, KEYS, "Tandem leaves it out")
            remarks.append(Remark(False, f"`{key}` is no key of this format", known))
    if not (template := given.text(document, "command")):
        raise given.refuse(document, "the key `command` is missing", "add `command`")
    if str(data.get("recipe_version", "1")).partition(".")[0] != "1":
        remarks.append(
            Remark(False, f"recipe_version {data['recipe_version']} with eugr's own keys", "read as version 1")
        )
    if args := foreign.as_list(document, "build_args"):
        how = f"build `{data.get('container')}` with it on the head, or set engine_image_from to an archive"
        remarks.append(Remark(False, f"build_args {' '.join(map(str, args))} are for eugr's build-and-copy.sh", how))
    solo_only, cluster_only = (given.truth(document, key) for key in ("solo_only", "cluster_only"))
    if solo_only and cluster_only:
        raise given.refuse(document, "it is solo_only and cluster_only at once", "remove one of them")
    exports, plain = _variables(foreign.as_dict(document, "env"))
    env = foreign.environment(plain, remarks)
    # run-recipe.py knows no `{model}`; its forks and sparkrun, which reads the same files, fill it from `model`.
    beside = {"model": data["model"]} if data.get("model") else {}
    defaults = foreign.as_dict(document, "defaults")
    if "{tensor_parallel}" in template and "tensor_parallel" not in defaults and not cluster_only:
        # On a node alone run-recipe.py says 1, whatever the file says; on several it ends.
        beside["tensor_parallel"], solo_only = 1, True
        said = "`{tensor_parallel}` in the command has no default, so it is 1, on one node alone"
        remarks.append(Remark(False, said, "add `tensor_parallel` to `defaults` for a cluster"))
    text = filled(template, defaults, beside, fill_like_format, remarks)
    try:
        command = served(text, env)
        if not solo_only and not cluster_only and (flag := _of_a_pair(template, defaults, beside, command, env)):
            cluster_only = True
            said = f"`{{tensor_parallel}}` is in {flag} as well, and would be 1 on one node: it runs in a cluster alone"
            remarks.append(Remark(False, said, "write `tensor_parallel: 1` under `defaults` for one node"))
    except ValueError as error:
        raise given.refuse(document, f"command: {error}", "close it") from None
    return foreign.build(
        document,
        command,
        format="eugr",
        model=str(data.get("model") or ""),
        solo_only=solo_only,
        cluster_only=cluster_only,
        gpus=_gpus(template, command, solo_only),
        exports=exports,
        env=env | foreign.environment(command.env, remarks),
        remarks=remarks,
        revision=data.get("model_revision"),
        description=str(data.get("description") or data.get("name") or document.path.stem),
        **foreign.mods(document, remarks, env),
    )


def _of_a_pair(template: str, defaults: Json, beside: Json, command: Served, env: dict[str, str]) -> str:
    """A flag of the recipe's own that would be another one on a node alone, where run-recipe.py says 1; or nothing."""
    if template.count("{tensor_parallel") < 2 or defaults.get("tensor_parallel") == 1:
        return ""
    alone = served(filled(template, {**defaults, "tensor_parallel": 1}, beside, fill_like_format, []), env)
    return next((each.words[0] for each in command.flags if each not in alone.flags), "")


def _gpus(template: str, command: Served, solo_only: bool) -> int:
    """GPUs without which it does not run.

    run-recipe.py puts 1 for `{tensor_parallel}` on a node alone, so a pair's recipe serves there too; one that is
    written for more nodes than a pair, or for stages, is not taken to fit into one.
    """
    pair = solo_only or command.gpus // command.stages <= 2
    if "{tensor_parallel" in template and pair and command.stages == 1:
        return 1
    return command.gpus


def _variables(env: Json) -> tuple[Json, Json]:
    """Variables that name others, which run-recipe.py exports in the container's shell, and all others."""
    named = {name: value for name, value in env.items() if re.search(r"\$\{?[A-Za-z_]", str(value))}
    named = {name: value for name, value in named.items() if not re.search(r"\$\(|`|\n", str(value))}
    return named, {name: value for name, value in env.items() if name not in named}
