"""What the readers of other tools' recipes share."""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from operations.plan.engines import ENGINES
from operations.plan.formats import given, parallel
from operations.plan.formats.document import Document
from operations.plan.formats.given import refuse
from operations.plan.formats.serve import Served
from operations.plan.recipe import OWNED_ENV, REPOSITORY, SERVED_NAME, Model, Needs, Recipe
from operations.plan.refusal import Finding, Refusal, Remark
from operations.plan.secret import instead, is_secret

#: Minutes that a load may take when the recipe does not say: a first start with autotuning took 18 ([F]).
LOAD_MINUTES = 30


def duplicates(document: Document) -> list[Remark]:
    """Keys given twice: these tools take the last one."""
    return [
        Remark(False, f"`{key} is given twice{', with different values' if differ else ''}", "the last one counts")
        for key, differ in document.twice.items()
    ]


def as_dict(document: Document, key: str) -> dict[str, Any]:
    """A mapping of the file; empty when absent; raises Refusal when it is something else."""
    value = document.data.get(key) or {}
    if not isinstance(value, dict):
        raise refuse(document, f"{key}: expected names and values", f"correct `{key}`")
    return {str(name): each for name, each in value.items()}


def as_list(document: Document, key: str) -> list[Any]:
    """A list of the file; one value alone is a list of one."""
    value = document.data.get(key)
    return [] if value is None else list(value) if isinstance(value, list) else [value]


def environment(raw: Mapping[str, Any], remarks: list[Remark]) -> dict[str, str]:
    """Variables as text, without those that the plan owns or that would carry a secret."""
    env = {}
    for name, value in raw.items():
        text = "" if value is None else str(value)
        if not re.fullmatch(r"[A-Za-z_]\w*", name) or "\n" in text:
            remarks.append(Remark(True, f"env `{name}` can't be passed as environment", "one name, one line of text"))
        elif name in OWNED_ENV:
            remarks.append(_left_out(name))
        elif is_secret(name, text):
            remarks.append(Remark(False, f"env `{name}` is left out: it looks like a secret", instead(name)))
        elif "$" in text or "`" in text:
            remarks.append(Remark(True, f"env `{name}` is `{text}`, to be filled in by a shell", "write its value"))
        else:
            env[name] = text
    return env


def shell_variables(raw: Mapping[str, Any], remarks: list[Remark]) -> dict[str, str]:
    """Those of `raw` that name other variables, for the container's shell to fill in; secrets are left out."""
    exports = {}
    for name, value in raw.items():
        if is_secret(name):
            remarks.append(Remark(False, f"env `{name}` is left out: it looks like a secret", instead(name)))
        elif name in OWNED_ENV:
            remarks.append(_left_out(name))
        else:
            exports[name] = str(value)
    return exports


def _left_out(name: str) -> Remark:
    return Remark(False, f"env `{name}` is left out", "the plan sets it, for each node")


def version_of(image: str) -> str | None:
    """The engine's version in an image's tag, where the tag is one of a release."""
    tagged = re.fullmatch(r"(?:docker\.io/)?(?:vllm/vllm-openai|nvcr\.io/nvidia/tensorrt-llm/release):v?"
                          r"(\d+\.\d+(?:\.\d+)?(?:rc\d+)?)(?:[-@].*)?", image)  # fmt: skip
    return tagged.group(1) if tagged else None


def mods(document: Document, remarks: list[Remark]) -> tuple[str, ...]:
    """The mods by path: beside the recipe (`../mods/NAME`, `mods/NAME`), or Tandem's own."""
    found = []
    for each in as_list(document, "mods"):
        name = str(each)
        places = [document.path.parent / name, document.path.parent.parent / name]
        here = next((place for place in places if place.is_dir()), None)
        found.append(str(here) if here else Path(name).name)
        remarks.append(Remark(False, f"mod `{name}`", "baked into a derived image, once, instead of at every start"))
    return tuple(found)


def build(
    document: Document,
    command: Served,
    *,
    format: str,
    model: str,
    solo_only: bool,
    cluster_only: bool,
    gpus: int,
    least: int = 1,
    env: dict[str, str],
    remarks: list[Remark],
    **more: Any,
) -> Recipe:
    """The Recipe; raises Refusal when there is nothing to make one of."""
    if not command.engine:
        why = next((each for each in command.remarks if each.error), None)
        raise refuse(
            document, *((why.problem, why.remedy) if why else ("its command serves nothing", "add `vllm serve ...`"))
        )
    image = given.image(document)
    repo = _repository(document, command.model, model, remarks)
    revision = more.pop("revision", None) or command.owned.get("revision") or None
    if revision is not None and not re.fullmatch(r"[0-9a-f]{40}", str(revision)):
        remarks.append(Remark(False, f"revision `{revision}` is no commit", "pin one with the knob `model_revision`"))
        revision = None
    if "@sha256:" not in image:
        remarks.append(Remark(False, f"the image `{image}` is not pinned by a digest", "what the head has is taken"))
    runner, task = command.flag("runner"), command.flag("task")
    if runner == "pooling" or task in ("embed", "embedding", "score", "reward", "classify"):
        remarks.append(
            Remark(True, f"it serves no chat ({runner or task})", "Tandem proves an engine by a chat's token")
        )
    names = command.owned.get("served-model-name", "").split()
    if names and not re.fullmatch(SERVED_NAME, names[0]):
        raise refuse(document, f"the served model's name is `{names[0][:60]}`", "use letters, digits and ./:+- alone")
    for name in names[1:]:
        remarks.append(Remark(False, f"served under `{names[0]}` alone, not under `{name}` as well", "clients use one"))
    able = ENGINES[command.engine].TOPOLOGIES
    gpus = max(gpus, parallel.said(document.data))
    topologies, min_nodes = parallel.topologies(
        gpus, solo_only=solo_only, cluster_only=cluster_only, least=least, found=remarks
    )
    wanted = [topology for topology in topologies if topology in able]
    if not wanted:
        raise refuse(
            document, f"it runs in {', '.join(topologies)}; {command.engine} runs in {', '.join(able)} here",
            "choose another recipe for these nodes",
        )  # fmt: skip
    exports = shell_variables(more.pop("exports", {}) | command.exports, remarks)
    served_name = names[0] if names else repo
    if command.engine == "tensorrt-llm":
        served_name = served_name.rpartition("/")[2]
    try:
        return Recipe(
            name=re.sub(r"[^\w.+-]+", "-", document.path.stem),
            source=document.file,
            format=format,
            engine=command.engine,
            image=image,
            model=Model(repo=repo, revision=revision),
            served_name=served_name,
            topologies=tuple(wanted),
            min_nodes=min_nodes,
            needs=Needs(),
            load_minutes=LOAD_MINUTES,
            engine_version=version_of(image),
            env=env,
            program=tuple(command.program_words),
            exports=exports,
            shell=tuple(command.shell),
            folders=tuple(command.folders),
            flags=tuple(command.flags),
            remarks=(*duplicates(document), *remarks, *command.remarks),
            **more,
        )
    except ValidationError as error:
        raise Refusal(
            *(
                Finding(document.file, f"{'.'.join(map(str, e['loc']))}: {e['msg']}", "correct it")
                for e in error.errors()
            )
        ) from None


def _repository(document: Document, served: str, named: str, remarks: list[Remark]) -> str:
    """The model on the Hub: what the command serves, unless that is a path and `model` names a repository."""
    on_the_hub = REPOSITORY
    if re.fullmatch(on_the_hub, served):
        if named and named != served and re.fullmatch(on_the_hub, named):
            remarks.append(Remark(False, f"`model` is {named}, the command serves {served}", "the command counts"))
        return served
    if re.fullmatch(on_the_hub, named):
        if served:
            remarks.append(Remark(False, f"the command serves the path {served}", f"{named} from the model store"))
        return named
    if not (served or named):
        raise refuse(document, "it names no model", "add `model: ORG/NAME`")
    problem = f"its model is `{served or named}`, which is no repository on the Hub"
    raise refuse(document, problem, "name it as `model: ORG/NAME`; the knob `model_from` may point at a folder of it")
