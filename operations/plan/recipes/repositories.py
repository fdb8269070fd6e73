"""Repositories that were fetched when the owner asked for it: where they lie on this machine, at which commit.

Some are registries: the owner has added them by a name, and their recipes are found by name too. Each is pinned.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from pathlib import Path

from operations.plan.config.refusal import Finding, Refusal

#: Where eugr's tool has its recipes and mods, and where sparkrun has what a recipe does not bring along ([F]).
EUGR = "https://github.com/eugr/spark-vllm-docker"
#: What may be added by its name alone: sparkrun's registries by its own names for them, and eugr's repository.
KNOWN = {
    "official": "https://github.com/spark-arena/recipe-registry",
    "community": "https://github.com/spark-arena/community-recipe-registry",
    "eugr": "https://github.com/spark-arena/eugr-recipes",
    "spark-vllm-docker": EUGR,
}
#: `<host>-<owner>-<name>@<commit>`, of one that is whole; others are on their way or were broken off.
_WHOLE = re.compile(r"[\w.-]+@[0-9a-f]{40}")
NAME = re.compile(r"[A-Za-z0-9][\w.-]{0,60}", re.ASCII)


@dataclass(frozen=True)
class Registry:
    """A repository of recipes by the owner's name for it."""

    name: str
    url: str
    commit: str

    @property
    def place(self) -> Path:
        """Where it lies."""
        return place(self.url, self.commit)

    def recipes(self) -> dict[str, Path]:
        """Its YAML files by their paths without endings; benchmarks and the like among them."""
        found: dict[str, Path] = {}
        for folder, below, files in os.walk(self.place):
            below[:] = sorted(each for each in below if not each.startswith("."))
            for file in (Path(folder, each) for each in sorted(files) if each.endswith((".yaml", ".yml"))):
                found[str(file.relative_to(self.place).with_suffix(""))] = file
        return found


def store() -> Path:
    """The folder of them all, in the user's cache."""
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "tandem/repositories"


def listing() -> Path:
    """The file that says which of them are registries."""
    return Path(os.environ.get("XDG_CONFIG_HOME") or Path.home() / ".config") / "tandem/registries.json"


def registries() -> list[Registry]:
    """Those that were added, by name; raises Refusal where the file that lists them can't be read."""
    try:
        listed = json.loads(listing().read_text())
        return sorted((Registry(**each) for each in listed), key=lambda each: each.name)
    except FileNotFoundError:
        return []
    except (OSError, ValueError, TypeError) as error:
        problem = f"{listing()} does not list registries: {type(error).__name__}"
        raise Refusal(Finding("recipes", problem, "remove it, and add them again")) from None


def write(kept: list[Registry]) -> None:
    """Lists them, whole or not at all."""
    listing().parent.mkdir(parents=True, exist_ok=True)
    aside = listing().with_suffix(".part")
    aside.write_text(json.dumps([asdict(each) for each in kept], indent=1) + "\n")
    aside.replace(listing())


def named(name: str) -> Iterator[tuple[Registry, Path]]:
    """Files in the registries that may be a recipe of this name: `NAME`, or `@REGISTRY/NAME`."""
    scope, _, inner = name[1:].partition("/") if name.startswith("@") else ("", "", name)
    for registry in registries():
        if scope in ("", registry.name):
            for path, file in registry.recipes().items():
                if inner in (path, file.stem):
                    yield registry, file


def fetched() -> list[Path]:
    """Those that are whole, by name; of a registry the commit that it is pinned at, and no other."""
    pinned = {each.place.name.rpartition("@")[0]: each.commit for each in registries()}
    try:
        whole = sorted(path for path in store().iterdir() if _WHOLE.fullmatch(path.name) and path.is_dir())
    except OSError:
        return []
    return [path for path in whole if path.name[-40:] == pinned.get(path.name[:-41], path.name[-40:])]


def place(url: str, commit: str) -> Path:
    """Where a repository lies at a commit."""
    name = re.sub(r"[^\w.-]+", "-", re.sub(r"^[\w+]+://|\.git/?$", "", url)).strip("-")
    return store() / f"{name}@{commit}"
