"""`include:` of sparkrun 0.4.2 ([F], recipe_include.py): a recipe that is another one beside it, but for some keys."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

from operations.plan.config.refusal import Finding, Refusal
from operations.wire import Json

#: Recipes in a row, as sparkrun has it.
_DEPTH = 8
_NAME = re.compile(r"[A-Za-z0-9_][\w.+-]*", re.ASCII)
#: Mappings whose values are settings, replaced as a whole.
_SETTINGS = ("defaults", "env")


def merged(path: Path, data: Json, read: Callable[[Path], Any], depth: int = _DEPTH) -> Json:
    """What a recipe and those that it includes say together; raises Refusal for one that is not there.

    `read`: the content of a file. A key without a value takes the included one away.
    """
    name = data.get("include")
    if not isinstance(name, str):
        return data
    if not depth:
        raise _refusal(path, f"it includes more than {_DEPTH} recipes in a row", "put them into one file")
    file = _beside(path, name)
    base = read(file)
    if not isinstance(base, dict):
        raise _refusal(path, f"it includes `{name}`, which is no recipe", "name the file of a recipe")
    return _over({str(key): each for key, each in merged(file, base, read, depth - 1).items()}, data)


def _beside(path: Path, name: str) -> Path:
    if not _NAME.fullmatch(name):
        remedy = "name a file beside this one, without a folder; copy a registry's recipe there"
        raise _refusal(path, f"it includes `{name[:80]}`, which is no recipe beside it", remedy)
    names = [name] if name.endswith((".yaml", ".yml")) else [f"{name}.yaml", f"{name}.yml"]
    for file in (path.parent / each for each in names):
        if file.is_file() and file.resolve().parent == path.parent.resolve():
            return file
    raise _refusal(path, f"it includes `{name}`, and there is no such recipe beside it", f"put {names[0]} there")


def _over(base: Json, outer: Json) -> Json:
    found = {key: each for key, each in base.items() if key != "include"}
    for key, value in outer.items():
        if key == "include":
            continue
        if value is None:
            found.pop(key, None)
        elif isinstance(value, dict) and isinstance(found.get(key), dict):
            found[key] = _mapping(found[key], value, whole=key in _SETTINGS)
        else:
            found[key] = value
    return found


def _mapping(base: Json, outer: Json, *, whole: bool) -> Json:
    found = dict(base)
    for key, value in outer.items():
        if value is None:
            found.pop(key, None)
        elif not whole and isinstance(value, dict) and isinstance(found.get(key), dict):
            found[key] = _mapping(found[key], value, whole=False)
        else:
            found[key] = value
    return found


def _refusal(path: Path, problem: str, remedy: str) -> Refusal:
    return Refusal(Finding(path.name, problem, remedy))
