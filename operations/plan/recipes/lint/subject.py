"""What is judged: a recipe with the knobs, and the vocabulary of its engine."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import cast

from operations.plan.config.knobs import Knobs
from operations.plan.recipes.recipe import Recipe
from operations.wire import Json
from operations.wire.model import Vocabulary

FOLDER = Path(__file__).parents[4] / "files/vocabularies"
Version = tuple[int, ...]


@dataclass(frozen=True)
class Subject:
    """`vocabulary`: the engine's own, or that of its release; empty: neither is known. `asked`: it is the image's."""

    recipe: Recipe
    knobs: Knobs
    vocabulary: Vocabulary
    asked: bool
    nodes: int = 2
    mtp: bool | None = None
    #: What the engine is called.
    title: str = ""

    @property
    def version(self) -> str:
        """The engine's version; empty: unknown, as that of a build whose sources had no tags (0.1.dev19754)."""
        version = str(self.vocabulary.get("version") or self.recipe.engine_version or "")
        return "" if parse(version) < (0, 2) else version

    @property
    def exact(self) -> bool:
        """Whether the vocabulary is that of the engine that will run; else releases stand in for it."""
        return bool(self.vocabulary)

    @property
    def vocabularies(self) -> list[Vocabulary]:
        """What the words are held against: the engine's own vocabulary, or those of the releases that stand in for it.

        A version of which none is shipped lies between two that are; where no version is known it may be any.
        """
        if self.exact:
            return [self.vocabulary]
        every, version = releases(self.recipe.engine), parse(self.version)
        before = [each for each in every if parse(each) < version][-1:]
        behind = [each for each in every if parse(each) > version][:1]
        return [every[each] for each in before + behind] if before and behind else list(every.values())

    @property
    def certain(self) -> bool:
        """Whether what none of the vocabularies has is not in the engine either: it may else be a build of its own."""
        return self.exact or (bool(self.version) and len(self.vocabularies) == 2)

    @property
    def who(self) -> str:
        """Whom a remark speaks of."""
        if self.exact:
            version = str(self.vocabulary.get("version") or self.recipe.engine_version)
            return f"{self.title} {version}" + (" (the image)" if self.asked else "")
        return f"{self.title} {self._span}"

    def no(self, verb: str, what: str, kind: str = "") -> str:
        """`vLLM 0.17.1 has no flag X`; of releases that stand in for the engine: `no vLLM from A to B has a flag X`."""
        if self.exact:
            return f"{self.who} {verb} no {kind} {what}".replace("  ", " ")
        return f"no {self.title} from {self._span} {verb} {f'a {kind} ' if kind else ''}{what}"

    @property
    def _span(self) -> str:
        versions = [each["version"] for each in self.vocabularies]
        return " to ".join(dict.fromkeys((versions[0], versions[-1])))

    def before(self, version: str) -> bool:
        """Whether the engine is older than a release; False when its version is unknown."""
        return bool(self.version) and parse(self.version) < parse(version)

    def since(self, version: str) -> bool:
        """Whether the engine is that release or a later one; False when its version is unknown."""
        return bool(self.version) and parse(self.version) >= parse(version)


def shipped(recipe: Recipe) -> Vocabulary:
    """The vocabulary of the release that the recipe names; empty when none is shipped."""
    return releases(recipe.engine).get(recipe.engine_version or "", {})


@cache
def releases(engine: str) -> dict[str, Vocabulary]:
    """The vocabularies of all releases of an engine that are shipped, the oldest first."""
    files = FOLDER.glob(f"{engine}-*.json")
    found = {file.stem.removeprefix(f"{engine}-"): json.loads(file.read_text()) for file in files}
    return {version: found[version] for version in sorted(found, key=parse)}


@cache
def life(engine: str, kind: str, name: str) -> tuple[str, str]:
    """The first release that has a word (a key of the vocabulary's `kind`), and the first one behind the last that has
    it; empty: none of them has it, or the newest has it still.
    """
    every = list(releases(engine).items())
    having = [at for at, (_, words) in enumerate(every) if name in (cast("Mapping[str, Json]", words).get(kind) or {})]
    if not having:
        return "", ""
    return every[having[0]][0], "" if having[-1] == len(every) - 1 else every[having[-1] + 1][0]


def parse(version: str) -> Version:
    """`0.17.1` as numbers; what follows them (`rc1.dev0`) does not count."""
    parts = []
    for part in version.split("."):
        digits = part[: len(part) - len(part.lstrip("0123456789"))] if part[:1].isdigit() else ""
        if not digits:
            break
        parts.append(int(digits))
        if digits != part:
            break
    return tuple(parts)
