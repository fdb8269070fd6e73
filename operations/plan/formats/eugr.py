"""Recipes of eugr/spark-vllm-docker, version 1: a container, and a command with {placeholders} ([F])."""

from __future__ import annotations

from operations.plan.formats import foreign
from operations.plan.formats.document import Document
from operations.plan.formats.serve import served
from operations.plan.formats.template import fill_like_format
from operations.plan.knobs import Topology
from operations.plan.recipe import Recipe
from operations.plan.refusal import Remark, nearest

KEYS = (
    *("name", "recipe_version", "container", "command", "description", "model", "mods"),
    *("defaults", "env", "build_args", "cluster_only", "solo_only"),
)


def recipe(document: Document) -> Recipe:
    """The recipe; raises Refusal when it can't be one."""
    data = document.data
    remarks: list[Remark] = []
    for key in data:
        if key not in KEYS:
            known = nearest(key, KEYS, "Tandem leaves it out")
            remarks.append(Remark(False, f"`{key}` is no key of this format", known))
    for key in ("container", "command"):
        if not isinstance(data.get(key), str) or not data[key].strip():
            raise foreign.refuse(document, f"the key `{key}` is missing", f"add `{key}`")
    if str(data.get("recipe_version", "1")).partition(".")[0] != "1":
        remarks.append(Remark(False, f"recipe_version {data['recipe_version']}", "read as version 1"))
    if args := foreign.as_list(document, "build_args"):
        how = f"build `{data['container']}` with it on the head, or set engine_image_from to an archive"
        remarks.append(Remark(False, f"build_args {' '.join(map(str, args))} are for eugr's build-and-copy.sh", how))
    solo_only, cluster_only = (foreign.is_true(data.get(key)) for key in ("solo_only", "cluster_only"))
    if solo_only and cluster_only:
        raise foreign.refuse(document, "it is solo_only and cluster_only at once", "remove one of them")
    env = foreign.environment(foreign.as_dict(document, "env"), remarks)
    text, missing = fill_like_format(data["command"], foreign.as_dict(document, "defaults"))
    for name in dict.fromkeys(missing):
        remarks.append(Remark(True, f"`{{{name}}}` in the command has no default", f"add `{name}` to `defaults`"))
    try:
        command = served(text, env)
    except ValueError as error:
        raise foreign.refuse(document, f"command: {error}", "close it") from None
    topologies: tuple[Topology, ...] = ("solo", "cluster", "replicas")
    if solo_only:
        topologies = ("solo", "replicas")
    elif cluster_only:
        topologies = ("cluster",)
    return foreign.build(
        document,
        command,
        format="eugr",
        model=str(data.get("model") or ""),
        image=data["container"].strip(),
        topologies=topologies,
        min_nodes=command.number("tensor-parallel-size") if cluster_only else 1,
        env=env | foreign.environment(command.env, remarks),
        remarks=remarks,
        description=str(data.get("description") or data.get("name") or document.path.stem),
        engine_version=foreign.version_of(data["container"].strip()),
        **foreign.mods(document, remarks, env),
    )
