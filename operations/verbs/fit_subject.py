"""What `tandem fit` is asked about: a repository on the Hub, a GGUF file, or a recipe, and what it is made of."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fnmatch import fnmatch
from pathlib import Path

from operations.plan.config.refusal import Finding, Refusal
from operations.plan.fit import config, gguf
from operations.plan.fit.shape import GIB, Shape
from operations.plan.fit.weights import Weights, count
from operations.plan.recipes.formats import find, load_file
from operations.plan.recipes.recipe import REPOSITORY, Recipe
from operations.plan.recipes.recipe import Model as OnHub
from operations.verbs.hub import Hub, Repository, read_header
from operations.wire import Json

INDEX = "model.safetensors.index.json"
_ON_HUB = re.compile(rf"(?P<repo>{REPOSITORY})(?:[:/](?P<build>[\w./+-]+))?(?:@(?P<revision>[\w./-]+))?")
_PAGE = re.compile(r"/(?:tree|blob|resolve)/(?P<revision>[^/]+)(?P<rest>/[^/].*)?$")
#: Flags by which an engine makes 8 bits of a checkpoint's 16 while it loads.
_ONLINE = ("fp8", "fp8_per_tensor", "fp8_per_block")


@dataclass(frozen=True)
class Subject:
    """`files`: of weights; `weights_gib`: of all that is loaded; `disk_gib`: of all that is fetched; `weights`: as the
    configuration makes them; None: it does not say enough. `recipe`: where one was asked about. `notes`: what an owner
    should know. `gguf`: it is a GGUF build.
    """

    title: str
    repo: str
    revision: str
    shape: Shape
    files: int
    weights_gib: float
    disk_gib: float
    gated: bool = False
    weights: Weights | None = None
    recipe: Recipe | None = None
    notes: tuple[str, ...] = ()
    gguf: bool = False


def subject(what: str, hub: Hub) -> Subject:
    """Raises Refusal where it is none, or can't be seen."""
    path = path_of(what)
    if what.endswith(".gguf") and path.is_file():
        return _file(path)
    if what.endswith((".yaml", ".yml")) or "/" not in what or path.is_file():
        return _recipe(load_file(find(what)), hub)
    repo, build, revision = on_hub(what)
    repository = hub.repository(repo, revision)
    if build or not any(name.endswith((".safetensors", ".bin")) for name in repository.files):
        return _gguf(repository, build, hub)
    return _model(repository, hub)


def on_hub(what: str) -> tuple[str, str, str]:
    """Repository, build and revision, the last two perhaps empty, as an owner writes them or a browser shows them.
    Raises Refusal where it is none.
    """
    # .../tree/main, .../blob/main/NAME.gguf.
    word = _PAGE.sub(lambda found: f"{found['rest'] or ''}@{found['revision']}", re.sub(r"^https?://[^/]+/", "", what))
    named = _ON_HUB.fullmatch(word.rstrip("/"))
    if named is None:
        remedy = "write ORG/NAME, ORG/NAME:BUILD for a GGUF, the name of a recipe, or a file's"
        raise Refusal(Finding("fit", f"`{what}` is no repository", remedy))
    return named["repo"], named["build"] or "", named["revision"] or ""


def path_of(what: str) -> Path:
    """A file's place as an owner writes it. Raises Refusal for a home that nobody has, and a name that is too long."""
    try:
        path = Path(what).expanduser()
        path.is_file()
    except (OSError, RuntimeError, ValueError):
        raise Refusal(Finding("fit", f"`{what[:80]}` is no file's name", "write ORG/NAME, or a file's name")) from None
    return path


def _file(path: Path) -> Subject:
    """A GGUF file on this machine, with its other parts beside it."""
    files = {each.name: each.stat().st_size for each in path.parent.glob("*.gguf")}
    names = gguf.chosen(files, path.name, str(path.parent))

    def read(count: int) -> bytes:
        with (path.parent / names[0]).open("rb") as file:
            return file.read(count)

    gib = sum(files[name] for name in names) / GIB
    return Subject(path.name, "", "", gguf.shape(read_header(read, path.name)), len(names), gib, gib, gguf=True)


def gguf_files(of: Repository, build: str) -> list[str]:
    """The files of a GGUF build. Raises Refusal where there is none, or not all of it."""
    has_some = any(name.endswith(".gguf") for name in of.files)
    if build and not has_some:
        problem = f"{of.repo} has no GGUF files, and so no build `{build}`"
        raise Refusal(Finding("fit", problem, f"write {of.repo} alone"))
    if not has_some:
        problem = f"{of.repo} has no weights of a known format (safetensors, PyTorch, GGUF)"
        raise Refusal(Finding("fit", problem, "name a repository with one, e.g. its quantised build"))
    return gguf.chosen(of.files, build, of.repo)


def _gguf(of: Repository, build: str, hub: Hub) -> Subject:
    names = gguf_files(of, build)
    gib = _gib(of, names)
    shape = gguf.shape(hub.header(of, names[0]))
    title = f"{of.repo}, {names[0]}"
    return Subject(title, of.repo, of.revision, shape, len(names), gib, gib, of.gated, gguf=True)


def _model(of: Repository, hub: Hub, ignored: Sequence[str] = ()) -> Subject:
    said = configuration(of, hub)
    files = {name: size for name, size in of.files.items() if not any(fnmatch(name, each) for each in ignored)}
    names = _weights(of, files, hub)
    gib, whole = _gib(of, names), sum(files.values()) / GIB
    shape = config.shape(said)
    return Subject(of.repo, of.repo, of.revision, shape, len(names), gib, whole, of.gated, _counted(said))


def _gib(of: Repository, names: Sequence[str]) -> float:
    """GiB of these files. Raises Refusal where their sizes are not told."""
    if unsaid := [name for name in names if not of.files[name]]:
        remedy = "ask the Hub itself: hub_endpoint is a mirror's, or HF_ENDPOINT"
        raise Refusal(Finding("fit", f"no size of {unsaid[0]} of {of.repo} is told", remedy))
    return sum(of.files[name] for name in names) / GIB


def configuration(of: Repository, hub: Hub) -> Json:
    """config.json, with what modelopt says of its build beside it. Raises Refusal where there is none."""
    if "config.json" not in of.files:
        remedy = "name the model's own repository: an adapter, or a folder of other programs, has none"
        raise Refusal(Finding("fit", f"{of.repo} has no config.json", remedy))
    said = hub.json(of, "config.json")
    if not said.get("quantization_config") and "hf_quant_config.json" in of.files:
        said["quantization_config"] = hub.json(of, "hf_quant_config.json").get("quantization")
    return said


def _weights(of: Repository, files: Mapping[str, int], hub: Hub) -> list[str]:
    """The files that an engine loads: those that the index names, else what lies at the top."""
    if INDEX in files:
        told = hub.json(of, INDEX).get("weight_map")
        names = sorted({str(each) for each in told.values()}) if isinstance(told, dict) else []
        if not names:
            raise Refusal(
                Finding("fit", f"{INDEX} of {of.repo} names no files", "name another revision: ORG/NAME@COMMIT")
            )
        if lacking := [name for name in names if name not in files]:
            some = ", ".join(lacking[:3])
            problem = f"{of.repo} lacks {len(lacking)} of {len(names)} files that its index names: {some}"
            raise Refusal(Finding("fit", problem, "name a revision that is whole: ORG/NAME@COMMIT"))
        return names
    for ending in (".safetensors", ".bin"):
        at_top = [name for name in files if name.endswith(ending) and "/" not in name]
        if names := [name for name in at_top if not name.startswith(("consolidated", "adapter_", "training_args"))]:
            return names
    raise Refusal(Finding("fit", f"{of.repo} has no weights at its top", "name a model's repository, and no adapter's"))


def _counted(said: Json) -> Weights | None:
    try:
        return count(said)
    except KeyError:
        return None


def _recipe(recipe: Recipe, hub: Hub) -> Subject:
    """The served model's shape, and the weights of all that are loaded with it."""
    notes: list[str] = []
    first, *others = (_loaded(each, hub) for each in recipe.models if each.kind != "files")
    gib = first.weights_gib
    if str(recipe.flag("quantization")) in _ONLINE and not first.shape.quantised:
        notes.append(f"its {gib:.1f} GiB of 16 bits become 8 while they load: half is counted")
        gib /= 2
    for each in others:
        notes.append(f"{each.repo}: {each.weights_gib:.1f} GiB beside it, whose own KV cache is not counted")
    loaded = gib + sum(each.weights_gib for each in others)
    if recipe.weights_gib and abs(recipe.weights_gib - loaded) > max(1.0, loaded / 20):
        notes.append(f"the recipe says {recipe.weights_gib:g} GiB of weights, and the Hub has {loaded:.1f}")
    if recipe.model.revision is None:
        notes.append(f"it names no revision: this is of {first.revision[:12]}")
    disk = first.disk_gib + sum(each.disk_gib for each in others)
    own = (recipe.name, first.repo, first.revision, first.shape, first.files, loaded, disk, first.gated)
    return Subject(*own, first.weights, recipe, tuple(notes))


def _loaded(of: OnHub, hub: Hub) -> Subject:
    """What is loaded of a repository. An adapter's files are all of its weights."""
    repository = hub.repository(of.repo, of.revision or "")
    if of.kind == "adapter":
        gib = sum(repository.files.values()) / GIB
        return Subject(of.repo, of.repo, repository.revision, Shape("", 0, 0), len(repository.files), gib, gib)
    if of.kind == "gguf":
        own = [name for name in repository.files if any(fnmatch(name, each) for each in of.files)]
        return _gguf(repository, min(own, key=len, default=""), hub)
    return _model(repository, hub, of.ignore)
