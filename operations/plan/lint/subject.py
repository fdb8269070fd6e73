"""What is judged: a recipe with the knobs, and the vocabulary of its engine."""

from __future__ import annotations

import json
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from operations.plan.knobs import Knobs
from operations.plan.recipe import Recipe

FOLDER = Path(__file__).parents[3] / "files/vocabularies"
#: As files/engine/vocabulary.py prints it.
Vocabulary = dict[str, Any]
Version = tuple[int, ...]


@dataclass(frozen=True)
class Subject:
    """`asked`: the vocabulary is the image's own, not that of a release of the same number."""

    recipe: Recipe
    knobs: Knobs
    vocabulary: Vocabulary
    asked: bool
    nodes: int = 2
    mtp: bool | None = None

    @property
    def version(self) -> str:
        """The engine's version; empty: unknown."""
        return str(self.vocabulary.get("version") or self.recipe.engine_version or "")

    @property
    def who(self) -> str:
        """Whom a remark speaks of."""
        return f"vLLM {self.version}" + (" (the image)" if self.asked else "")

    def before(self, version: str) -> bool:
        """Whether the engine is older than a release; False when its version is unknown."""
        return bool(self.version) and parse(self.version) < parse(version)

    def since(self, version: str) -> bool:
        """Whether the engine is that release or a later one; False when its version is unknown."""
        return bool(self.version) and parse(self.version) >= parse(version)


def shipped(recipe: Recipe) -> Vocabulary:
    """The vocabulary of the release that the recipe names; empty when none is shipped."""
    return releases().get(recipe.engine_version or "", {}) if recipe.engine == "vllm" else {}


@cache
def releases() -> dict[str, Vocabulary]:
    """The vocabularies of all releases that are shipped, the oldest first."""
    found = {file.stem.removeprefix("vllm-"): json.loads(file.read_text()) for file in FOLDER.glob("vllm-*.json")}
    return {version: found[version] for version in sorted(found, key=parse)}


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
