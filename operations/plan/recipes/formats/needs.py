"""What a recipe needs beside its model: found in its flags, read beside the recipe, or said to be missing.

The same for every format: a reader makes a recipe of a file, this completes it.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

from operations.plan.config.refusal import Remark
from operations.plan.engines import ENGINES, named
from operations.plan.engines.llama_cpp_files import all_parts
from operations.plan.engines.named import Named, attached_name, reference
from operations.plan.recipes import mods
from operations.plan.recipes.formats.mod_places import root_of
from operations.plan.recipes.recipe import Answers, Kind, Model, Recipe

#: Weights of a repository of which only a tokenizer or a configuration is wanted.
WEIGHTS = (
    "*.safetensors",
    "*.safetensors.index.json",
    "*.bin",
    "*.bin.index.json",
    "*.pt",
    "*.pth",
    "*.gguf",
    "*.onnx",
)
#: Bytes of a file beside a recipe: it is kept with each plan that has served.
SMALL = 1 << 20
#: Folders in which images have programs and examples of their own. Anything else that has an absolute path would be a
#: mount of the owner's, and Tandem mounts the store and the recipe's own files alone.
OF_IMAGES = ("/workspace/", "/app/", "/opt/", "/usr/", "/etc/")
#: Why what an engine may well serve is not proven to serve.
_UNPROVEN: dict[Answers, str] = {
    "classify": "it classifies, and the proxy (LiteLLM) has no way for `/classify`: no client would reach it",
    "reward": "it gives rewards or vectors for each token, and the proxy (LiteLLM) has no way for `/pooling`",
    "transcription": "it writes down speech: its proof would be a recording, and Tandem asks with text alone",
    "embedding": "it gives vectors",
    "rerank": "it ranks documents",
}
#: What a GGUF beside the model is named by.
_OF_GGUF = (
    "write `ORG/NAME/FILE.gguf`, and list ORG/NAME in `further_models`; in a recipe of sparkrun's, in "
    "`additional_models` of `distribution_config`"
)
#: The strongest first: what is loaded as a model is needed whole.
_KINDS: tuple[Kind, ...] = ("model", "gguf", "adapter", "files")


def complete(recipe: Recipe, folder: Path) -> Recipe:
    """With further models, files and answers; remarks for what is missing. `folder`: where the recipe's file lies."""
    engine = ENGINES[recipe.engine]
    answers = recipe.answers if "answers" in recipe.model_fields_set else engine.answers(recipe)
    remarks = list(_answered(recipe, answers))
    flags_name = named(recipe)
    served, *models = (_with_named(recipe, flags_name, each) for each in (recipe.model, *_further(recipe, flags_name)))
    served, attached = served.model_copy(update={"kind": engine.WEIGHTS}), dict[str, str]()
    recipe = recipe.model_copy(update={"model": served, "further_models": tuple(models), "answers": answers})
    for each in flags_name:
        found = _beside(folder, each.text) if each.kind == "file" and not reference(recipe, each) else None
        content = _content(found) if found else None
        if content is not None and attached.setdefault(attached_name(each.text), content) == content:
            continue
        remarks += _missing(recipe, each, found)
    unnamed = [model.repo for model in models if not any(_means(recipe, each, model) for each in flags_name)]
    own = recipe.format == "tandem"
    if not own:
        recipe = recipe.model_copy(
            update={"further_models": tuple(each for each in models if each.repo not in unnamed)}
        )
    remedy = "name it in a flag, or take it out" if own else "it is not fetched: nothing here would load it"
    remarks += [Remark(own, f"further_models: no flag names {repo}", remedy) for repo in unnamed]
    return recipe.model_copy(update={"attached": attached, "remarks": (*recipe.remarks, *remarks)})


def _further(recipe: Recipe, flags_name: list[Named]) -> tuple[Model, ...]:
    """The models that the recipe lists, then those that its flags name; what each is follows from the flags."""
    models = {model.repo: model for model in recipe.further_models if model.repo != recipe.model.repo}
    kinds: dict[str, set[Kind]] = {}
    for each in flags_name:
        found = reference(recipe, each)
        if found is None or found.repo == recipe.model.repo:
            continue
        model = models.get(found.repo) or Model(repo=found.repo)
        models[found.repo] = model.model_copy(update={"revision": model.revision or found.revision or None})
        kinds.setdefault(found.repo, set()).add("files" if each.kind == "file" else each.kind)
    return tuple(_of_kind(model, kinds.get(repo, set())) for repo, model in models.items())


def _with_named(recipe: Recipe, flags_name: list[Named], model: Model) -> Model:
    """A model of which some files are fetched, and those of it that a flag names."""
    if not model.files:
        return model
    found = [named for each in flags_name if (named := reference(recipe, each))]
    own = [all_parts(each.rest.lstrip("/")) for each in found if each.repo == model.repo and each.rest]
    return model.model_copy(update={"files": tuple(dict.fromkeys((*model.files, *own)))})


def _of_kind(model: Model, kinds: set[Kind]) -> Model:
    kind = next((each for each in _KINDS if each in kinds), "model")
    ignore = model.ignore or (WEIGHTS if kind == "files" else ())
    return model.model_copy(update={"kind": kind, "ignore": ignore})


def _means(recipe: Recipe, name: Named, model: Model) -> bool:
    found = reference(recipe, name)
    return found is not None and found.repo == model.repo


def _beside(folder: Path, text: str) -> Path | None:
    """A file beside the recipe, or in the folder above where that is of the same repository; nothing else of this
    machine is looked at, and nothing whose name begins with a dot.
    """
    if not attached_name(text):
        return None
    root = root_of(folder.absolute())
    is_below = root is not None and folder.resolve() != root.resolve()
    inside = folder.resolve().parent if is_below else folder.resolve()
    bases = (folder, folder.parent) if is_below else (folder,)
    try:
        places = [(base / text).resolve() for base in bases]
        return next((place for place in places if _is_shown(place, inside) and place.is_file()), None)
    except OSError:  # a name longer than any file's
        return None


def _is_shown(place: Path, inside: Path) -> bool:
    """Whether it lies in the folder, and neither it nor a folder on its way is a hidden one."""
    return place.is_relative_to(inside) and not any(each.startswith(".") for each in place.relative_to(inside).parts)


def _content(file: Path) -> str | None:
    """Its text, with a newline at its end: pyinfra writes one (and Jinja takes it away). None: no small text file."""
    try:
        text = file.read_text() if file.stat().st_size <= SMALL else None
    except (OSError, UnicodeDecodeError):
        return None
    return None if text is None else text.removesuffix("\n") + "\n"


def _missing(recipe: Recipe, name: Named, found: Path | None) -> Iterator[Remark]:
    """What is to be said of a name that is no file beside the recipe."""
    what = f"{name.flag} names `{name.text[:120]}`"
    runs = ENGINES[recipe.engine]
    is_makers = re.split("[:@]", recipe.image.removeprefix("docker.io/"))[0] in runs.IMAGES
    # What is to be filled in has been told by who has read the command.
    if reference(recipe, name) or re.search(r"\$\(|`|(?<!\$)\{(?!model\}/)[A-Za-z_][\w-]*\}", name.text):
        return
    if found:
        yield Remark(
            True, f"{what}, which is no text of at most {SMALL >> 20} MiB, or there are two", "give it another"
        )
    elif name.text.startswith((*OF_IMAGES, *runs.PLACES)) or (is_makers and name.text.startswith(runs.HERE)):
        yield Remark(False, f"{what}: the image has to have it", "nothing to do where the image's makers say so")
    elif mod := next((each for each in (*recipe.absent_mods, *recipe.mods) if _brings(each, name)), ""):
        yield Remark(False, f"{what}: the mod `{Path(mod).name}` has to bring it", "nothing to do")
    elif name.text.startswith(("/", "~")):
        mounted = "Tandem mounts its model store and the recipe's own files, nothing else"
        remedy = {"file": "put the file beside the recipe and name it without a folder", "gguf": _OF_GGUF}.get(
            name.kind, "name a repository on the Hub (ORG/NAME)"
        )
        yield Remark(True, f"{what}, which the container will not have: {mounted}", remedy)
    elif name.kind != "file":
        of = "file of a repository that the recipe lists" if name.kind == "gguf" else "repository on the Hub"
        yield Remark(True, f"{what}, which is no {of}", _OF_GGUF if name.kind == "gguf" else "write ORG/NAME")
    else:
        remedy = "put it beside the recipe; a file of the model's repository is written `{model}/NAME`"
        yield Remark(True, f"{what}, and there is no such file beside the recipe", remedy)


def _brings(mod: str, name: Named) -> bool:
    """Whether a mod has a file of this name, or speaks of it where it says what it does; one that is not here may.

    What is no file (a draft's folder) it has to name by its whole path: its last word alone says nothing.
    """
    folder, meant = mods.folder_of(mod), Path(name.text).name if name.kind == "file" else name.text.rstrip("/")
    if not folder.is_dir():
        return name.kind == "file"
    files = [each for each in folder.rglob("*") if each.is_file()]
    said = [each for each in files if each.suffix in (".sh", ".py", ".yaml") and each.stat().st_size <= SMALL]
    if name.kind == "file" and any(each.name == meant for each in files):
        return True
    return any(meant in each.read_text(errors="replace") for each in said)


def _answered(recipe: Recipe, answers: Answers) -> Iterator[Remark]:
    runs = ENGINES[recipe.engine]
    if answers != "chat" and answers not in runs.QUESTIONS:
        remedy = "take another recipe; where it does chat, say so: `answers: chat` in a recipe of Tandem's"
        why = runs.UNPROVEN.get(answers, _UNPROVEN[answers])
        yield Remark(True, f"{why} ({recipe.model.repo})", remedy)
