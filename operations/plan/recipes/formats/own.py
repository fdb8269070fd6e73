"""Tandem's own format, read strictly: whatever it does not know, it names."""

from __future__ import annotations

from typing import Any

from pydantic import ValidationError

from operations.plan.config.refusal import Finding, Refusal
from operations.plan.config.secret import instead, is_secret
from operations.plan.engines import ENGINES, addresses
from operations.plan.recipes.formats.document import Document
from operations.plan.recipes.mods import settle
from operations.plan.recipes.recipe import Recipe, canonical, flag
from operations.wire import Json

#: What readers set, and no file may.
_INTERNAL = (
    *("format", "remarks", "program", "exports", "shell", "folders", "attached", "kept_images"),
    *("start_mods", "absent_mods", "drop_caches_s", "hooks"),
)
KEYS = tuple(name for name in Recipe.model_fields if name not in _INTERNAL)


def recipe(document: Document) -> Recipe:
    """The recipe; raises Refusal with every fault in it."""
    data, file = dict(document.data), document.file
    findings = [Finding(file, f"`{key} is given twice", "keep one of them") for key in document.twice]
    findings += [Finding(file, f"unknown key `{key}`", _keys()) for key in data if key in _INTERNAL]
    flags = data.pop("flags", None) or {}
    if isinstance(flags, dict):
        findings += list(_misplaced(file, flags, str(data.get("engine"))))
        several = ENGINES[engine].SEVERAL if (engine := str(data.get("engine"))) in ENGINES else ()
        data["flags"] = [made for name, value in flags.items() if (made := flag(str(name), value, several))]
    else:
        findings.append(Finding(file, "flags: expected names and values", f"correct `flags` in {file}"))
    env = data.get("env")
    findings += [
        Finding(file, f"env: `{name}` looks like a secret", instead(str(name)))
        for name, value in (env.items() if isinstance(env, dict) else ())
        if is_secret(str(name), str(value))
    ]
    findings += [
        Finding(file, f"env: `{name}` is set by the plan, for each node; remove it", f"correct `env` in {file}")
        for name in addresses()
        if isinstance(env, dict) and name in env
    ]
    if document.path.stem != data.get("name") and "name" in data and document.path.parent.name == "recipes":
        findings.append(
            Finding(file, f"name is {data['name']!r}: a recipe is found by its file's name", "make them one")
        )
    try:
        made_of = Recipe(**{key: value for key, value in data.items() if key not in _INTERNAL})
    except ValidationError as error:
        raise Refusal(*findings, *_findings(file, [dict(each) for each in error.errors()])) from None
    if findings:
        raise Refusal(*findings)
    found = settle(made_of.mods, made_of.env)
    told = {"mods": found.mods, "start_mods": found.starts, "drop_caches_s": found.drop_caches_s}
    return made_of.model_copy(update={**told, "remarks": found.remarks})


def _misplaced(file: str, flags: dict[Any, Any], engine: str) -> list[Finding]:
    runs = ENGINES.get(engine)
    owned, same = (runs.OWNED, runs.SAME) if runs else ({}, {})
    found = []
    for name in map(str, flags):
        meant = same.get(canonical(name), canonical(name))
        if name.startswith("-"):
            found.append(
                Finding(file, f"flags: `{name}`: write flags without the leading dashes", f"correct `flags` in {file}")
            )
        elif meant in owned:
            problem = f"flags: `{name}` is not a recipe's: {owned[meant]}"
            found.append(Finding(file, problem, f"remove `{name}` from {file}"))
    return found


def _findings(file: str, errors: list[Json]) -> list[Finding]:
    """One for each fault, and one for all keys that are missing."""
    missing = [_key(error) for error in errors if error["type"] == "missing"]
    keys = ", ".join(f"`{key}`" for key in missing)
    said = f"the keys {keys} are missing" if len(missing) > 1 else f"the key {keys} is missing"
    others = [_finding(file, error) for error in errors if error["type"] != "missing"]
    return [*([Finding(file, said, _keys())] if missing else []), *others]


def _key(error: Json) -> str:
    return ".".join(str(part) for part in error["loc"])


def _finding(file: str, error: Json) -> Finding:
    key = _key(error)
    if error["type"] == "extra_forbidden":
        return Finding(file, f"unknown key `{key}`", _keys())
    if error["type"] in ("model_type", "model_attributes_type", "dict_type"):
        return Finding(file, f"{key}: expected names and values", f"correct `{key}` in {file}")
    message = error["msg"].removeprefix("Value error, ")
    return Finding(file, f"{key}: {message}", f"correct `{key}` in {file}")


def _keys() -> str:
    return f"a recipe has: {', '.join(KEYS)}"
