"""Where a recipe's mod lies, looked for as the recipe's own tool does, and then further.

eugr's run-recipe.py takes a mod's path from the root of its repository. sparkrun looks beside the recipe, in the
registry that it comes from (`.sparkrun/registry.yaml` says which folders are its recipes and its mods), and at last in
its mirror of eugr's repository ([F]).
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from operations.plan.config.refusal import Refusal
from operations.plan.recipes import loader, repositories
from operations.plan.recipes.mod_folder import content, faults, is_mod
from operations.plan.recipes.mods import FOLDER
from operations.plan.recipes.repositories import EUGR, KNOWN

#: Where the tools have the mods that a recipe does not bring along; two of sparkrun's registries are one repository.
REGISTRIES = KNOWN | {"experimental": KNOWN["official"]}
#: Folders that are looked through for a mod elsewhere in a repository, and how deep.
_FOLDERS, _DEPTH = 4000, 6


@dataclass(frozen=True)
class Found:
    """`mod`: its folder, or its name in files/mods; `where`: in words."""

    mod: str
    where: str


@dataclass(frozen=True)
class Missing:
    """What is wrong, and what to do about it."""

    problem: str
    remedy: str


@dataclass(frozen=True)
class _Registry:
    name: str
    recipes: Path
    mods: Path


def find(recipe: Path, reference: str, format: str) -> Found | Missing:
    """The mod that a recipe file names; it has a run.sh or a mod.yaml."""
    scope, _, inner = reference[1:].partition("/") if reference.startswith("@") else ("", "", reference)
    name = (inner or reference).removeprefix("./").removeprefix("mods/").rstrip("/")
    if not name or "\0" in reference:
        return Missing(f"`mods` names {reference!r}, which is no mod", "name a folder: `mods/NAME`")
    here = recipe.absolute().parent
    root = root_of(here)
    if name.startswith("/") and here.resolve().is_relative_to(repositories.store().resolve()):
        # What another has written may not name what lies on the owner's machine.
        problem = f"the mod `{reference}` is named from `/` by a recipe that was fetched"
        return Missing(problem, "copy the recipe out of the store, and name a mod of yours there")
    for place, where in _places(here, root, reference, name, scope, format):
        if place.suffix == ".zip" and place.is_file():
            return Missing(f"the mod `{reference}` is a zip file", f"unpack it into {place.with_suffix('')}")
        if is_mod(place):
            return _within(place, where, reference, root or here.parent)
    elsewhere = [] if scope or ".." in Path(name).parts or root is None else list(_elsewhere(root, name))
    if elsewhere and root:
        return _one_of([(each, root) for each in elsewhere], reference, f"elsewhere in {root}")
    if not scope and is_mod(FOLDER / Path(name).name):
        return Found(Path(name).name, "Tandem's own")
    copies = [(each, repository) for each, repository in _fetched(name, scope) if is_mod(each)]
    return _one_of(copies, reference, "fetched") if copies else _nowhere(here, root, reference, scope, format)


def root_of(folder: Path) -> Path | None:
    """The root of the repository that a folder lies in; None: it lies in none.

    A repository may have recipes and mods in several of its folders, beside each other: they tell its root only where
    nothing else does.
    """
    above, store = (folder, *folder.parents), repositories.store()
    marks = (".git", ".sparkrun/registry.yaml")
    said = (each for each in above if each.parent == store or any((each / mark).exists() for mark in marks))
    looks = (each for each in above if (each / "recipes").is_dir() and (each / "mods").is_dir())
    return next(said, None) or next(looks, None)


def _places(
    here: Path, root: Path | None, reference: str, name: str, scope: str, format: str
) -> Iterator[tuple[Path, str]]:
    """Folders that may be it, in the order of the recipe's own tool."""
    registries = _registries(root) if root else []
    if scope:
        yield from ((each.mods / name, f"the registry @{scope}") for each in registries if each.name == scope)
        return
    beside = [(here / name, "beside the recipe"), (here / "mods" / name, "beside the recipe")]
    if format == "sparkrun":
        yield from beside
    # The registry that the recipe is of comes before its neighbours in the same repository.
    for each in sorted(registries, key=lambda each: not here.is_relative_to(each.recipes)):
        yield each.mods / name, f"the registry {each.name}"
    above = [each for each in (here, *here.parents) if root is None or each.is_relative_to(root)]
    above = above if root else above[:2]
    for folder in reversed(above) if format == "eugr" else above:
        yield folder / reference, str(folder)
        yield folder / "mods" / name, str(folder)
    yield from beside


def _registries(root: Path) -> list[_Registry]:
    """What a repository says of its registries, sparkrun's two spellings; nothing when it says nothing readable."""
    try:
        raw, _ = loader.content(root / ".sparkrun/registry.yaml")
        listed = [each for each in raw["registries"] if isinstance(each, dict)]
    except (Refusal, TypeError, KeyError):
        return []
    found = []
    for each in listed:
        mods = each.get("mods_subpath") or each.get("mods")
        recipes = each.get("subpath") or each.get("recipes") or "recipes"
        if isinstance(mods, str) and isinstance(recipes, str):
            found.append(_Registry(str(each.get("name")), root / recipes, root / mods))
    return found


def _elsewhere(root: Path, name: str) -> Iterator[Path]:
    """Mods of this name anywhere in a repository."""
    for count, (folder, below, _) in enumerate(os.walk(root)):
        deep = len(Path(folder).relative_to(root).parts)
        below[:] = sorted(each for each in below if not each.startswith(".")) if deep < _DEPTH else []
        if is_mod(Path(folder) / name):
            yield Path(folder) / name
        if count >= _FOLDERS:
            return


def _fetched(name: str, scope: str) -> Iterator[tuple[Path, Path]]:
    """Folders in fetched repositories that may be it, each with its repository.

    `@NAME` is the repository that sparkrun or the owner calls so: what a repository calls itself, anybody may write. A
    name alone is one of eugr's two.
    """
    urls = [url for url in (REGISTRIES.get(scope or "eugr"), None if scope else EUGR) if url]
    meant = {repositories.place(url, "").name for url in urls}
    meant |= {repositories.place(each.url, "").name for each in repositories.registries() if each.name == scope}
    for repository in repositories.fetched():
        if repository.name[:-40] not in meant:
            continue
        listed = _registries(repository)
        own = [each for each in listed if each.name == scope] or listed
        for mods in [each.mods for each in own] or [repository / "mods"]:
            yield mods / name, repository


def _one_of(found: list[tuple[Path, Path]], reference: str, where: str) -> Found | Missing:
    """The one of several, where they are alike; each with its repository."""
    folders = [folder for folder, _ in found]
    if all(not faults(each) for each in folders) and len({tuple(content(each)) for each in folders}) > 1:
        places = ", ".join(map(str, folders[:4]))
        return Missing(f"the mod `{reference}` is in {len(folders)} places, which differ: {places}", "keep one of them")
    folder, root = found[0]
    return _within(folder, f"{where}: {folder}" if where == "fetched" else where, reference, root)


def _within(place: Path, where: str, reference: str, root: Path) -> Found | Missing:
    """A mod that is there, unless its path leads out of the repository; one that is named from `/` may lie anywhere."""
    settled = place.resolve()
    if not reference.startswith("/") and not settled.is_relative_to(root.resolve()):
        return Missing(f"the mod `{reference}` leads out of {root}, to {settled}", "put its folder into the repository")
    return Found(os.path.normpath(place), where)


def _nowhere(here: Path, root: Path | None, reference: str, scope: str, format: str) -> Missing:
    url = EUGR if format == "eugr" else REGISTRIES.get(scope or "eugr")
    looked = str(root) if root else f"{here} and the folder above it"
    problem = f"the mod `{reference}` is not here (looked in {looked})"
    folder = (root or here) / "mods" / Path(reference).name
    if url is None:
        return Missing(problem, f"fetch the registry @{scope} with `tandem recipes --fetch URL@COMMIT`")
    get = f"fetch it: `tandem recipes --fetch {url}@COMMIT` (`git ls-remote {url} HEAD` says the newest)"
    own = "if it is of the recipe's own repository, clone that whole"
    return Missing(problem, f"{own}; if it is of {url}, {get}; or put its folder (run.sh) into {folder}")
