"""`{placeholder}` in a command, as the two tools fill it in, and never more than a command can be."""

from __future__ import annotations

import re
from collections.abc import Mapping
from string import Formatter
from typing import Any

from operations.plan.recipes.bounds import COMMAND_CHARACTERS, MISSING, WIDTH, Beyond, too_long

_NAME = r"[A-Za-z_][\w-]*"
#: `${X}` is the shell's.
_PLACEHOLDER = re.compile(rf"\{{\{{|\}}\}}|(?<!\$)\{{({_NAME})\}}")
_IN_A_DEFAULT = re.compile(rf"(?<!\$)\{{({_NAME})\}}")
#: `{a.b}` and `{a[0]}`: `str.format` looks into the value.
_WITHIN = re.compile(rf"{_NAME}[.\[][^\s\"'{{}}]*")
#: A default may name another default; what is deeper than this names itself.
_DEPTH = 8


def fill_like_format(text: str, values: Mapping[str, Any]) -> tuple[str, list[str]]:
    """As Python's `str.format`, eugr's way: the text, and the names that have no value.

    Text that `str.format` can't take (JSON with single braces) is filled in leniently instead. Raises Beyond.
    """
    try:
        parts = list(Formatter().parse(text))
    except ValueError:
        return fill(text, values)
    names = [name for _, name, _, _ in parts if name is not None]
    if not all(re.fullmatch(_NAME, name) or _WITHIN.fullmatch(name) for name in names):
        return fill(text, values)
    out = _Text()
    for literal, name, spec, conversion in parts:
        out.add(literal)
        if name is None:
            continue
        if literal.endswith("$"):
            out.add("{" + name + (f":{spec}" if spec else "") + "}")
        elif name in values:
            out.add(_formatted(name, values[name], spec or "", conversion))
        else:
            out.miss(name)
            out.add("{" + name + "}")
    return out.text, list(out.missing)


def fill(text: str, values: Mapping[str, Any]) -> tuple[str, list[str]]:
    """sparkrun's way: names that have a value, again and again; any other brace is itself. Raises Beyond.

    Where `{{` occurs, doubled braces are one brace each, in all of the text.
    """
    doubled = "{{" in text
    out = _Text()
    at = 0
    for found in _PLACEHOLDER.finditer(text):
        out.add(text[at : found.start()])
        at = found.end()
        name = found.group(1)
        if name is None:
            out.add(found.group()[0] if doubled else found.group())
        elif name in values:
            _nested(str(values[name]), values, _DEPTH, out)
        else:
            out.miss(name)
            out.add(found.group())
    out.add(text[at:])
    return out.text, list(out.missing)


class _Text:
    """What is put together; raises Beyond where that would have no end: a part without a character counts as one."""

    def __init__(self) -> None:
        self.parts: list[str] = []
        self.size = 0
        #: Names without a value, in their order.
        self.missing: dict[str, None] = {}

    def miss(self, name: str) -> None:
        self.missing[name] = None
        if len(self.missing) > MISSING:
            raise Beyond(f"more than {MISSING} placeholders of its command have no default", "add them to `defaults`")

    def add(self, part: str) -> None:
        self.size += len(part) or 1
        if self.size > COMMAND_CHARACTERS:
            raise too_long()
        self.parts.append(part)

    @property
    def text(self) -> str:
        return "".join(self.parts)


def _nested(value: str, values: Mapping[str, Any], depth: int, out: _Text) -> None:
    at = 0
    for found in _IN_A_DEFAULT.finditer(value) if depth else ():
        if found.group(1) in values:
            out.add(value[at : found.start()])
            at = found.end()
            _nested(str(values[found.group(1)]), values, depth - 1, out)
    out.add(value[at:])


def _formatted(name: str, value: Any, spec: str, conversion: str | None) -> str:
    if any(len(number) > len(str(WIDTH)) or int(number) > WIDTH for number in re.findall(r"[0-9]+", spec)):
        problem = f"`{{{name}:...}}` in the command asks for more than {WIDTH:,} characters"
        raise Beyond(problem, f"write `{{{name}}}`")
    try:
        return str(Formatter().format_field(Formatter().convert_field(value, conversion), spec))
    except (ValueError, TypeError):
        return str(value)
