"""What flags name beside the model: other models, adapters, files; and where each of them lies in the container."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

from operations.plan.cluster.addresses import snapshot_path
from operations.plan.cluster.environment import MOUNT
from operations.plan.recipes.recipe import MODEL, REPOSITORY, Answers, Kind, Recipe

#: Before the name of a file that lies beside the recipe, where it lies beside start.sh.
ATTACHED = "recipe-"
_COMMIT = re.compile(r"[0-9a-f]{40}")
#: A model in the Hub client's cache, wherever that is mounted; of a snapshot of it, which, and what is named in it.
_CACHED = re.compile(r"(?:.*/)?models--(\w[\w.-]*?)--(\w[\w.-]*)(?:/snapshots/([\w.-]+)(/.+)?|/.*)?", re.ASCII)
#: What makers call their models, where no flag says what they are for: engines look into their files.
_BY_NAME: tuple[tuple[str, Answers], ...] = (
    (r"rerank", "rerank"),
    (r"embed|(^|[-_/])(bge|e5|gte)[-_]", "embedding"),
    (r"reward|(^|[-_/])prm[-_]", "reward"),
    (r"whisper|[-_]asr([-_]|$)|transcri|parakeet", "transcription"),
)
_ON_THE_HUB = re.compile(rf"({REPOSITORY})(/.+)?")


@dataclass(frozen=True)
class Named:
    """A value of a flag. `kind`: what it has to be, `file`: one file; `revision`: what the flags say of it."""

    flag: str
    text: str
    kind: Kind | Literal["file"]
    revision: str = ""


@dataclass(frozen=True)
class Reference:
    """A repository on the Hub, or a file of one; `revision` is a commit or empty."""

    repo: str
    rest: str = ""
    revision: str = ""


#: Says what stands in the place of what a flag names.
Place = Callable[[Named], str]


def reference(recipe: Recipe, named: Named) -> Reference | None:
    """The repository that is meant; None: it is a path, or a file beside the recipe.

    `org/name.jinja` may be a folder and a file: a file is a repository's where that is among the recipe's models.
    """
    if named.text == MODEL or named.text.startswith(f"{MODEL}/"):
        return Reference(recipe.model.repo, named.text.removeprefix(MODEL))
    if (cached := hub_client_s(named.text)) and "/snapshots/" in named.text:
        return cached
    found = _ON_THE_HUB.fullmatch(named.text)
    if not found:
        return None
    is_known = found[1] in [model.repo for model in recipe.models]
    if not is_known and (named.kind == "file" or found[2]):
        return None
    return Reference(found[1], found[2] or "", _commit(named.revision))


def hub_client_s(path: str) -> Reference | None:
    """What a path in the Hub client's own cache says: the repository, and of a snapshot the commit."""
    found = _CACHED.fullmatch(path)
    return Reference(f"{found[1]}/{found[2]}", found[4] or "", _commit(found[3] or "")) if found else None


def place(recipe: Recipe, named: Named) -> str:
    """The path in the container; what is none of the recipe's is left as it is written."""
    if found := reference(recipe, named):
        model = next((each for each in recipe.models if each.repo == found.repo), None)
        return f"{snapshot_path(model)}{found.rest}" if model else named.text
    name = attached_name(named.text)
    return f"{MOUNT}/{ATTACHED}{name}" if named.kind == "file" and name in recipe.attached else named.text


def by_name(recipe: Recipe) -> Answers | None:
    """What the model's name says that it is for; None: nothing."""
    return next((kind for pattern, kind in _BY_NAME if re.search(pattern, recipe.model.repo.lower())), None)


def attached_name(text: str) -> str:
    """The name under which a file of a flag is kept beside the recipe: that of `./its/chat.jinja` is chat.jinja.

    Empty for a path that begins with `/` or `~`: it is one of the container's.
    """
    return "" if text.startswith(("/", "~")) else text.rpartition("/")[2]


def _commit(text: str) -> str:
    return text if _COMMIT.fullmatch(text) else ""
