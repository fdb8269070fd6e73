"""What lies beside recipes in people's folders and is none: registries, benchmarks, what other tools are set by."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from operations.plan.config.refusal import Finding, Refusal
from operations.wire import Json

#: Each is a recipe's in some format: a file with none of them is no recipe, whatever else it has.
_RECIPE = {"command", "container", "defaults", "engine", "flags", "image", "model", "recipe_version", "runtime"}
#: By the keys of sparkrun's registries ([F]), and of what is often kept beside them.
_KINDS: tuple[tuple[str, Callable[[Json], bool]], ...] = (
    ("a registry of sparkrun's", lambda data: isinstance(data.get("registries"), list)),
    ("a benchmark of sparkrun's", lambda data: "framework" in data and "args" in data and "command" not in data),
    ("a benchmark of sparkrun's", lambda data: isinstance(data.get("benchmark"), dict) and not _RECIPE & data.keys()),
    ("a list of models", lambda data: isinstance(data.get("models"), list) and not _RECIPE & data.keys()),
    ("a list of families of models", lambda data: "schema_version" in data and isinstance(data.get("families"), dict)),
    ("a description of a model", lambda data: "schema_version" in data and data.get("kind") == "model"),
    ("a compose file", lambda data: isinstance(data.get("services"), dict)),
    ("a workflow of GitHub's", lambda data: "jobs" in data and "on" in data),
    ("an object of Kubernetes'", lambda data: "apiVersion" in data and "kind" in data),
)


class NoRecipe(Refusal):
    """The file is another thing altogether. `kind`: which."""

    def __init__(self, file: str, kind: str) -> None:
        self.kind = kind
        super().__init__(Finding(file, f"is not a recipe: it is {kind}", "name the file of a recipe"))


def kind(data: Any) -> str:
    """What a file is that is no recipe; empty: it is one, or wants to be."""
    if data is None:
        return "empty"
    if not isinstance(data, dict):
        return "no keys and values" if not isinstance(data, list) else "a list"
    if not data:
        return "empty"
    named = next((name for name, holds in _KINDS if holds(data)), "")
    return named or ("" if _RECIPE & data.keys() else "without any key of a recipe's")
