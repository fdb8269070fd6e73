"""One flag's words against what an engine says that the flag takes (files/engine/arguments.py), as its parser would."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from operations.plan.recipes.recipe import Flag
from operations.wire.model import FlagFacts

#: What people write for nothing, and for yes and no.
_NOTHING = ("none", "null", "nil", "undefined", "~")
_TRUE, _FALSE = ("true", "yes", "on"), ("false", "no", "off")
_UNITS = {"k": 10**3, "m": 10**6, "g": 10**9, "t": 10**12, "K": 2**10, "M": 2**20, "G": 2**30, "T": 2**40}
_SAID = {
    "int": "a whole number",
    "float": "a number",
    "size": "a whole number (or 25.6k, 64G)",
    "size or auto": "a whole number (or 25.6k, auto)",
    "json": "JSON",
    "object": "a JSON object",
    "object or text": "JSON, or a word",
}
_LIMITS: dict[str, tuple[str, Callable[[float, float], bool]]] = {
    "gt": ("more than", lambda a, b: a > b),
    "ge": ("at least", lambda a, b: a >= b),
    "lt": ("less than", lambda a, b: a < b),
    "le": ("at most", lambda a, b: a <= b),
}


@dataclass(frozen=True)
class Fault:
    """What is wrong with a flag's value. `outside`: the value that is none of `choices`."""

    problem: str
    remedy: str
    outside: str = ""
    choices: tuple[str, ...] = ()


def fault(name: str, facts: FlagFacts, flag: Flag) -> Fault | None:
    """What the engine's parser would say against a flag; None: nothing, or it is not known what it takes."""
    first, equals, rest = flag.words[0].partition("=")
    takes, values = facts.get("takes"), [rest] if equals else list(flag.words[1:])
    if takes is None:
        return None
    if not first.startswith("--") and first[1:].partition(".")[0] not in facts.get("short", ()):
        # `-O3`: the value is in the word.
        is_long = first[1:].replace("_", "-") == name and len(name) > 1
        return Fault(f"`{first}` has one dash in front of a long name", f"write --{name}") if is_long else None
    if "." in first:
        if takes in ("object", "json", "object or text"):
            return None if values else Fault(f"`{first}` has no value", "write one behind it, or remove the flag")
        return Fault(f"`{first}`: {name} takes {_kind(takes)}, it has no parts", f"write --{name} and its value")
    if takes in ("switch", "bare"):
        return _of_switch(name, values, has_no=takes == "switch") if values else None
    many = str(facts.get("many", "1"))
    if not values:
        is_fine = takes == "maybe" or many in ("*", "?")
        return None if is_fine else Fault(f"`{first}` has no value", f"write {_kind(takes)} behind it, or remove it")
    if many.isdigit() and len(values) > int(many):
        more = " ".join(values[int(many) :])
        return Fault(
            f"{name} takes {many} value{'s' if many != '1' else ''}, not `{more}` as well", "remove the others"
        )
    return next((found for value in values if (found := _of_value(name, facts, value))), None)


def _of_switch(name: str, values: list[str], *, has_no: bool) -> Fault:
    said = " ".join(values)
    off = f"write --no-{name} for it" if has_no and not name.startswith("no-") else "remove the flag"
    low = said.lower()
    remedy = off if low in (*_FALSE, *_NOTHING, "0") else "write the flag alone"
    return Fault(f"{name} is a switch and takes no value, not `{said}`", remedy)


def _of_value(name: str, facts: FlagFacts, value: str) -> Fault | None:
    takes, choices = facts.get("takes"), facts.get("choices")
    if facts.get("none") and value in ("", "None"):
        return None
    if choices:
        is_loose = facts.get("loose", False)
        if _plain(value, loose=is_loose) in [_plain(each, loose=is_loose) for each in choices]:
            return None
        return Fault("", "", value, tuple(choices))
    low = value.lower()
    if takes == "text" and (low in (*_TRUE[:1], *_FALSE[:1], "null", "undefined", "nil") or value == "None"):
        return Fault(f"{name} takes a word, not `{value}`", "write what is meant, or remove the flag")
    if takes in ("text", "word") and "many" not in facts and re.fullmatch(r"\[.*\]", value):
        return Fault(f"{name} takes a word, not the list `{_short(value)}`", "write the one that is meant")
    number = _number(str(takes), value)
    if takes in ("int", "float", "size", "size or auto"):
        if number is None:
            remedy = "remove the flag" if low in _NOTHING else f"write {_kind(takes)}"
            return Fault(f"{name} takes {_kind(takes)}, not `{value}`", remedy)
        for key, limit in facts.get("bounds", {}).items():
            words, holds = _LIMITS[key]
            if not holds(number, limit):
                return Fault(f"{name} is {words} {limit:g}, not {value}", "correct the number")
    if takes in ("json", "object") or (takes == "object or text" and re.fullmatch(r"(?s)\s*\{.*\}\s*", value)):
        return _of_json(name, str(takes), value)
    return None


def _of_json(name: str, takes: str, value: str) -> Fault | None:
    # vLLM lets `80g` stand in JSON.
    text = re.sub(r'("(?:[^"\\]|\\.)*")|\b\d+(?:\.\d+)?[kKmMgGtT]\b', lambda m: m.group(1) or "0", value)
    try:
        found = json.loads(text)
    except ValueError as error:
        where = f" ({error.msg} at character {error.pos})" if isinstance(error, json.JSONDecodeError) else ""
        remedy = "write it in single quotes, names and words in double quotes, true, false and null in lower case"
        return Fault(f"{name}: `{_short(value)}` is no JSON{where}", remedy)
    except RecursionError:
        return Fault(f"{name}: `{_short(value)}` is nested too deeply", "write it flat")
    if takes == "object" and not isinstance(found, dict):
        return Fault(f"{name} takes a JSON object, not `{_short(value)}`", 'write {"name": value}')
    return None


def _number(takes: str, value: str) -> float | None:
    """A value as vLLM reads it; None: it does not."""
    text = value.strip()
    try:
        if takes == "float":
            return float(text)
        if takes == "size or auto" and text.lower() == "auto":
            return -1
        sized = re.fullmatch(r"(\d+(?:\.\d+)?)([kKmMgGtT])", text) if takes != "int" else None
        if sized:
            number = float(sized[1]) if sized[2].islower() else int(sized[1])
            return number * _UNITS[sized[2]]
        return int(text)
    except (ValueError, OverflowError):
        return None


def _kind(takes: Any) -> str:
    return _SAID.get(str(takes), "a word")


def _plain(value: str, *, loose: bool) -> str:
    return value.lower().replace("-", "_") if loose else value


def _short(text: str) -> str:
    return text if len(text) <= 60 else f"{text[:57]}..."
