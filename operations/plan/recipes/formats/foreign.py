"""What the readers of other tools' recipes share."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import Any

from pydantic import ValidationError

from operations.plan.config.refusal import Finding, Refusal, Remark
from operations.plan.config.secret import instead, is_secret
from operations.plan.engines import ENGINES, addresses
from operations.plan.engines.named import hub_client_s
from operations.plan.recipes.formats import given, mod_places, parallel
from operations.plan.recipes.formats.document import Document
from operations.plan.recipes.formats.given import refuse
from operations.plan.recipes.formats.serve import programs
from operations.plan.recipes.formats.served_command import Served
from operations.plan.recipes.mods import folder_of, settle
from operations.plan.recipes.recipe import OWNED_ENV, REPOSITORY, SERVED_NAME, Model, Needs, Recipe
from operations.wire import Json

#: Minutes that a load may take when the recipe does not say: a first start with autotuning took 18 ([F]).
LOAD_MINUTES = 30
#: What stands behind a repository's name for one of its files in GGUF.
_TAG = r"(?i:(?:UD-)?(?:I?Q\d\w*|TQ\d\w*|B?F16|F32|MXFP4\w*)|[\w.-]+\.gguf)"


def duplicates(document: Document) -> list[Remark]:
    """Keys given twice: these tools take the last one."""
    return [
        Remark(False, f"`{key} is given twice{', with different values' if differ else ''}", "the last one counts")
        for key, differ in document.twice.items()
    ]


def as_dict(document: Document, key: str) -> Json:
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
        elif name in (*OWNED_ENV, *addresses()):
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
        elif name in (*OWNED_ENV, *addresses()):
            remarks.append(_left_out(name))
        elif name == "NCCL_IB_DISABLE":
            # By its value the plan gives ranks RDMA devices, or rails for TCP.
            remarks.append(Remark(True, f"env `{name}` is `{value}`, to be filled in by a shell", "write 0 or 1"))
        else:
            exports[name] = str(value)
    return exports


def _left_out(name: str) -> Remark:
    return Remark(False, f"env `{name}` is left out", "the plan sets it, or has it found, on each node")


def version_of(image: str, engine: str) -> str | None:
    """The engine's version in an image's tag, where the tag is one of a release."""
    tagged = re.fullmatch(r"(?:docker\.io/)?([^:@]+):v?(\d+\.\d+(?:\.\d+)?(?:rc\d+)?)(?:[-@].*)?", image)
    return tagged.group(2) if tagged and tagged.group(1) in ENGINES[engine].IMAGES else None


def mods(document: Document, remarks: list[Remark], names: Iterable[str] = ()) -> Json:
    """The recipe's mods by path, and when each acts, as fields of a Recipe; `names`: variables that it sets."""
    listed = as_list(document, "mods")
    if not listed and isinstance(nested := document.data.get("runtime_config"), dict):
        # As sparkrun has it of its first version.
        listed = nested["mods"] if isinstance(nested.get("mods"), list) else []
    found, absent = {}, []
    for each in listed:
        here = mod_places.find(document.path, str(each), document.format) if isinstance(each, str) else None
        if here is None:
            remarks.append(Remark(True, f"`mods` has {each!r}, which is no name", "name a folder: `mods/NAME`"))
        elif isinstance(here, mod_places.Missing):
            remarks.append(Remark(True, here.problem, here.remedy))
            absent.append(str(each))
        else:
            found[here.mod] = f"mod `{each}` ({here.where})"
    settled = settle(list(found), names)
    wrong = " ".join(each.problem for each in settled.remarks if each.error)
    names = {mod: folder_of(mod).name for mod in settled.mods}
    built = [mod for mod, name in names.items() if name not in settled.starts and f"mod `{name}`" not in wrong]
    remarks += [Remark(False, found[mod], "put into a derived image, once, not at every start") for mod in built]
    remarks += settled.remarks
    named = {"mods": settled.mods, "start_mods": settled.starts, "absent_mods": tuple(absent)}
    return {**named, "drop_caches_s": settled.drop_caches_s}


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
    otherwise: str = "",
    **more: Any,
) -> Recipe:
    """The Recipe; raises Refusal when there is nothing to make one of. `otherwise`: the image that its own tool takes
    where it names none.
    """
    if not command.engine:
        why = next((each for each in command.remarks if each.error), None)
        nothing = "its command serves nothing", f"add one of {', '.join(f'`{called} ...`' for called in programs())}"
        raise refuse(document, *((why.problem, why.remedy) if why else nothing))
    image = given.image(document, otherwise)
    runs = ENGINES[command.engine]
    weights = runs.weights(command.model, model, command.owned)
    remarks = [*remarks, *weights.remarks]
    repo = _repository(document, runs.WEIGHTS == "gguf", weights.command, weights.named, remarks)
    cached = hub_client_s(weights.command) or hub_client_s(weights.named)
    revision = more.pop("revision", None) or command.owned.get("revision") or (cached and cached.revision) or None
    if revision is not None and not re.fullmatch(r"[0-9a-f]{40}", str(revision)):
        remarks.append(Remark(False, f"revision `{revision}` is no commit", "pin one with the knob `model_revision`"))
        revision = None
    if "@sha256:" not in image:
        remarks.append(Remark(False, f"the image `{image}` is not pinned by a digest", "what the head has is taken"))
    names = command.owned.get("served-model-name", "").replace(",", " ").split()
    if names and not re.fullmatch(SERVED_NAME, names[0]):
        # A placeholder that has no value.
        if told := next((each for each in remarks if each.error and f"`{names[0]}`" in each.problem), None):
            raise refuse(document, told.problem, told.remedy)
        raise refuse(document, f"the served model's name is `{names[0][:60]}`", "use letters, digits and ./:+- alone")
    for name in names[1:]:
        if not re.fullmatch(SERVED_NAME, name):
            raise refuse(document, f"a name that the model is served under is `{name[:60]}`", "write words alone")
        remarks.append(Remark(False, f"served under `{names[0]}` alone, not under `{name}` as well", "clients use one"))
    able = runs.TOPOLOGIES
    gpus = max(gpus, parallel.said(document.data))
    topologies, min_nodes = parallel.topologies(
        gpus, solo_only=solo_only, cluster_only=cluster_only, least=least, found=remarks
    )
    wanted = [topology for topology in topologies if topology in able]
    if not wanted:
        problem = f"it runs in {', '.join(topologies)}; {command.engine} runs in {', '.join(able)} here: {runs.ALONE}"
        raise refuse(document, problem, "choose another recipe for these nodes")
    if not runs.PACKAGE and (command.hooks or more.get("start_mods")):
        problem = f"hooks and mods are run at a start by Python, which images of {runs.TITLE} have not"
        remarks.append(Remark(True, problem, "take them out of the recipe"))
    exports = shell_variables(more.pop("exports", {}) | command.exports, remarks)
    served_name = runs.served_name(names[0] if names else repo)
    try:
        return Recipe(
            name=re.sub(r"[^\w.+-]+", "-", document.path.stem),
            source=document.file,
            format=format,
            engine=command.engine,
            image=image,
            model=Model(repo=repo, revision=revision, files=weights.files),
            served_name=served_name,
            topologies=tuple(wanted),
            min_nodes=min_nodes,
            pipeline_parallel=command.stages,
            needs=Needs(),
            load_minutes=LOAD_MINUTES,
            engine_version=version_of(image, command.engine),
            env=env,
            program=tuple(command.program_words),
            exports=exports,
            shell=tuple(command.shell),
            folders=tuple(command.folders),
            hooks=tuple(command.hooks),
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


def _is_called(path: str, repo: str) -> bool:
    """Whether a path may be where somebody has mounted this model: by its name, or a folder for any (`/model`)."""
    last, name = path.rstrip("/").rpartition("/")[2].lower(), repo.rpartition("/")[2].lower()
    return last in (name, "model", "models", repo.lower().replace("/", "--"), repo.lower().replace("/", "_"))


def _repository(document: Document, of_quants: bool, served: str, named: str, remarks: list[Remark]) -> str:
    """The model on the Hub: what the command serves, unless that is a path and `model` names a repository.

    `of_quants`: a repository has several, and the engine serves one of them.
    """
    on_the_hub = REPOSITORY
    if re.fullmatch(on_the_hub, served):
        if named and named != served and re.fullmatch(on_the_hub, named):
            remarks.append(Remark(False, f"`model` is {named}, the command serves {served}", "the command counts"))
        return served
    if cached := hub_client_s(served):
        return cached.repo
    if re.fullmatch(on_the_hub, named):
        if served:
            is_it = _is_called(served, named)
            problem = f"the command serves the path {served}" + ("" if is_it else f", and `model` is {named}")
            remedy = f"{named} from the model store" if is_it else "the container has no such path: name one model"
            remarks.append(Remark(not is_it, problem, remedy))
        return named
    if not (served or named):
        raise refuse(document, "it names no model", "add `model: ORG/NAME`")
    if re.fullmatch(rf"{REPOSITORY}:{_TAG}", served or named):
        problem = f"its model is `{served or named}`, a quant in GGUF, and Tandem serves GGUF with llama-cpp alone"
        raise refuse(document, problem, "choose a recipe of llama-cpp, or name a model in safetensors")
    problem = f"its model is `{served or named}`, which is no repository on the Hub"
    name = "ORG/NAME:QUANT" if of_quants else "ORG/NAME"
    raise refuse(document, problem, f"name it as `model: {name}`; the knob `model_from` may point at a folder of it")
