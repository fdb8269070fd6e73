"""Values of other tools' recipes that have to be of one kind, each refused in a line when it is not."""

from __future__ import annotations

import re
from typing import Any

from operations.plan.config.refusal import Finding, Refusal, nearest
from operations.plan.recipes.formats.document import Document

#: A name in a registry: what `docker run` takes for one; `docker run` reads what follows a blank as its own options.
_IMAGE = re.compile(r"\w[\w.:/@+-]*", re.ASCII)
_MODES = ("auto", "solo", "cluster")


def refuse(document: Document, problem: str, remedy: str) -> Refusal:
    """For what leaves no recipe at all."""
    return Refusal(Finding(document.file, problem, remedy))


def truth(document: Document, key: str) -> bool:
    """A switch. "Yes" in quotes counts, as it does for both tools; a quoted "no", which they take for true, does not.

    Source: run-recipe.py tests `recipe.get(key)`, sparkrun 0.4.2 `data.get(key)`: any text is true.
    """
    value = document.data.get(key)
    if value in (None, False, "", 0):
        return False
    if value is True or _short(value).strip("'").lower() in ("true", "yes", "on", "1"):
        return True
    remedy = f"write `{key}: true` or `{key}: false`"
    raise refuse(document, f"{key}: {_short(value)} is neither true nor false", remedy)


def node_count(document: Document, key: str) -> int | None:
    """A number of nodes from one on; None: absent."""
    value = document.data.get(key)
    if value is None:
        return None
    if isinstance(value, bool) or not re.fullmatch(r"[1-9][0-9]{0,3}", _short(value).strip("'")):
        raise refuse(
            document, f"{key}: {_short(value)} is no number of nodes", f"write `{key}` as a whole number from 1 on"
        )
    return int(value)


def mode(document: Document) -> str:
    """sparkrun's `mode`."""
    value = str(document.data.get("mode") or "auto")
    if value not in _MODES:
        expected = f"write one of {', '.join(_MODES)}"
        raise refuse(document, f"mode: {_short(value)} is none that sparkrun has", nearest(value, _MODES, expected))
    return value


def image(document: Document, otherwise: str = "") -> str:
    """The image's name; `otherwise`: what the recipe's own tool takes where there is none."""
    value = document.data.get("container") or otherwise
    if value is None or not str(value).strip():
        raise refuse(document, "the key `container` is missing", "add `container`, the image that the recipe runs in")
    name = str(value).strip()
    if not isinstance(value, str) or not _IMAGE.fullmatch(name):
        remedy = "write the image's name alone; Tandem gives the container its options itself"
        raise refuse(document, f"container: {_short(value)} is no name of an image", remedy)
    return name


def mapping(value: Any) -> dict[Any, Any]:
    """A mapping, and an empty one for anything else."""
    return value if isinstance(value, dict) else {}


def listed(value: Any) -> list[Any]:
    """A list, and an empty one for anything else."""
    return value if isinstance(value, list) else []


def text(document: Document, key: str) -> str:
    """A text of the file; empty when absent."""
    value = document.data.get(key)
    if value is not None and not isinstance(value, str):
        raise refuse(document, f"{key}: expected text, not {type(value).__name__}", f"write `{key}` as one text")
    return (value or "").strip()


def _short(value: Any) -> str:
    shown = repr(value)
    return shown if len(shown) <= 60 else f"{shown[:57]}..."
