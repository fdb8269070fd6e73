"""Whether a value fits a schema: of JSON Schema what the questions use, and no more."""

from __future__ import annotations

import json
from typing import Any

from operations.plan.answers.reading import Said, Undecided, Wrong, need, quoted
from operations.wire import Json

_TYPES: dict[str, tuple[type, ...]] = {
    "object": (dict,),
    "array": (list,),
    "string": (str,),
    "integer": (int,),
    "boolean": (bool,),
}


def misfit(schema: Json, value: Any, where: str = "it") -> str:
    """What of a value does not fit; empty: it fits."""
    kind = schema.get("type")
    if kind and (not isinstance(value, _TYPES[kind]) or (kind == "integer" and isinstance(value, bool))):
        return f"{where} is {quoted(json.dumps(value))}, expected {kind}"
    if "enum" in schema and value not in schema["enum"]:
        return f"{where} is {quoted(json.dumps(value))}, expected one of {json.dumps(schema['enum'])}"
    if isinstance(value, dict):
        return _object(schema, value, where)
    if isinstance(value, list):
        least, most = schema.get("minItems", 0), schema.get("maxItems", len(value))
        if not least <= len(value) <= most:
            return f"{where} has {len(value)} items, expected {least} to {most}"
        found = (misfit(schema.get("items", {}), each, f"{where}[{number}]") for number, each in enumerate(value))
        return next(filter(None, found), "")
    return ""


def _object(schema: Json, value: Json, where: str) -> str:
    known = schema.get("properties", {})
    if missing := [name for name in schema.get("required", ()) if name not in value]:
        return f"{where} has no `{missing[0]}`"
    if known and (more := [name for name in value if name not in known]):
        return f"{where} has `{more[0]}`, which the schema does not know"
    found = (misfit(known[name], each, f"{where}.{name}") for name, each in value.items() if name in known)
    return next(filter(None, found), "")


def parsed(said: Said) -> Any:
    """An answer that has to be JSON, as a value. Raises Undecided for one that had no room to end."""
    try:
        return json.loads(said.content)
    except ValueError:
        if said.is_cut:
            raise Undecided("the answer had no room to end") from None
        raise Wrong(f"its answer is no JSON: {quoted(said.content)}") from None


def fitting(schema: Json, said: Said) -> Any:
    """The same, where it has to fit a schema."""
    value = parsed(said)
    why = misfit(schema, value)
    need(not why, why)
    return value
