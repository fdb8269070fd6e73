"""`{placeholder}` in a command, as the two tools fill it in."""

from __future__ import annotations

import re
from collections.abc import Mapping
from string import Formatter
from typing import Any

_NAME = r"[A-Za-z_][\w-]*"
#: `${X}` is the shell's.
_PLACEHOLDER = re.compile(rf"\{{\{{|\}}\}}|(?<!\$)\{{({_NAME})\}}")
#: A default may name another default; what is deeper than this names itself.
_DEPTH = 8


def fill_like_format(text: str, values: Mapping[str, Any]) -> tuple[str, list[str]]:
    """As Python's `str.format`, eugr's way: the text, and the names that have no value.

    Text that `str.format` can't take (JSON with single braces) is filled in leniently instead.
    """
    try:
        parts = list(Formatter().parse(text))
    except ValueError:
        return fill(text, values)
    if any(name is not None and not re.fullmatch(_NAME, name) for _, name, _, _ in parts):
        return fill(text, values)
    out, missing = [], []
    for literal, name, spec, _ in parts:
        out.append(literal)
        if name is None:
            continue
        if literal.endswith("$"):
            out.append("{" + name + (f":{spec}" if spec else "") + "}")
        elif name in values:
            out.append(_formatted(values[name], spec or ""))
        else:
            missing.append(name)
            out.append("{" + name + "}")
    return "".join(out), missing


def fill(text: str, values: Mapping[str, Any]) -> tuple[str, list[str]]:
    """sparkrun's way: names that have a value, again and again; any other brace is itself.

    Where `{{` occurs, doubled braces are one brace each, in all of the text.
    """
    doubled = "{{" in text
    missing: list[str] = []

    def replace(found: re.Match[str]) -> str:
        name = found.group(1)
        if name is None:
            return found.group()[0] if doubled else found.group()
        if name in values:
            return _nested(str(values[name]), values, _DEPTH)
        missing.append(name)
        return found.group()

    return _PLACEHOLDER.sub(replace, text), missing


def _nested(value: str, values: Mapping[str, Any], depth: int) -> str:
    if depth == 0:
        return value

    def replace(found: re.Match[str]) -> str:
        name = found.group(1)
        return _nested(str(values[name]), values, depth - 1) if name in values else found.group()

    return re.sub(rf"(?<!\$)\{{({_NAME})\}}", replace, value)


def _formatted(value: Any, spec: str) -> str:
    try:
        return format(value, spec)
    except (ValueError, TypeError):
        return str(value)
