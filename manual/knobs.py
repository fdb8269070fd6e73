"""docs/knobs.md: each knob with its default, what it takes, and what is said of it where it is set."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from typing import Any, Literal, get_args, get_origin

from manual import texts
from manual.declared import Declared, declared
from manual.modules import module
from operations.plan import knobs as code

HEAD = """# Knobs

Made of `group_data/all.py` and `operations/plan/knobs.py` by `make manual-pages`.

Edit them in `group_data/all.py`, or give them for one run: `make apply DATA="topology=solo"`. A name that is no knob,
and a value that a knob does not take, are refused before the first change. So are some that don't go together:
[below](#refused-together).
"""
CODE = "operations/plan/knobs.py"
TYPES = {
    str: "a text",
    dict[str, str]: "a dictionary of texts",
    dict[str, dict[str, Any]]: "a dictionary of dictionaries",
    tuple[dict[str, Any], ...]: "a list of dictionaries",
    tuple[str, ...]: "a list of texts; with `DATA` words with a comma between them",
}


def page() -> str:
    """The whole page."""
    lines, section = [HEAD], ""
    for group in declared():
        if group.section != section:
            section = group.section
            lines.append(f"## {section}\n")
        lines += _group(group)
    lines += ["## Refused together\n", *(f"- {text}" for text in _messages(_functions("model_validator", ""))), ""]
    return "\n".join(lines).rstrip() + "\n"


def _group(group: Declared) -> Iterator[str]:
    for name, value in group.values.items():
        yield f"### {name}\n"
        yield f"Default: `{value}`. Takes {takes(name)}.\n"
        yield from (f"Refused: {text}.\n" for text in _messages(_functions("field_validator", name)))
        # What stands over several is said once, under the last of them.
        if name == list(group.values)[-1]:
            others = [f"`{each}`" for each in group.values if each != name]
            if others:
                yield f"Of this and of {', '.join(others)}:\n"
            yield _as_markdown(group.comment)


def takes(name: str) -> str:
    """What a knob's type lets pass, in words."""
    field = code.Knobs.model_fields[name]
    annotation: Any = field.annotation
    if get_origin(annotation) is Literal:
        return "one of " + ", ".join(f"`{choice}`" for choice in get_args(annotation))
    bounds = {key: getattr(each, key) for each in field.metadata for key in ("ge", "gt", "le") if hasattr(each, key)}
    if annotation in (int, float):
        words = "a whole number" if annotation is int else "a number"
        words += f", {bounds['ge']:g} or more" if "ge" in bounds else ""
        words += f", more than {bounds['gt']:g}" if "gt" in bounds else ""
        return words + (f", {bounds['le']:g} at most" if "le" in bounds else "")
    pattern = next((each.pattern for each in field.metadata if getattr(each, "pattern", None)), None)
    return TYPES[annotation] + (f" that matches `{pattern}`" if pattern else "")


def _functions(kind: str, name: str) -> Iterator[ast.FunctionDef]:
    """The validators of a knob, or those of all knobs together."""
    for node in ast.walk(module(CODE).tree):
        for each in node.decorator_list if isinstance(node, ast.FunctionDef) else []:
            if isinstance(each, ast.Call) and isinstance(each.func, ast.Name) and each.func.id == kind:
                named = [argument.value for argument in each.args if isinstance(argument, ast.Constant)]
                if not name or name in named:
                    assert isinstance(node, ast.FunctionDef)
                    yield node


def _messages(functions: Iterator[ast.FunctionDef]) -> list[str]:
    """What they raise, as it is written."""
    scope = texts.Scope(module(CODE))
    raised = [
        node.exc.args[0]
        for function in functions
        for node in ast.walk(function)
        if isinstance(node, ast.Raise) and isinstance(node.exc, ast.Call) and node.exc.args
    ]
    return [texts.escaped(scope.text(each)) for each in raised]


def _as_markdown(comment: tuple[str, ...]) -> str:
    """A comment's lines; what is indented in two columns is a list of choices."""
    blocks: list[str] = []
    for line in comment:
        if choice := re.fullmatch(r" {2}(\S+(?: \S+)*) {2,}(\S.*)", line):
            blocks += [] if blocks and blocks[-1].startswith("- ") else [""]
            blocks.append(f"- `{choice[1]}`: {_linked(choice[2])}")
        elif line.startswith("    "):
            blocks[-1] += f" {_linked(line.strip())}"
        else:
            blocks += [""] if blocks and blocks[-1].startswith("- ") else []
            blocks.append(_linked(line))
    return "\n".join(blocks).strip() + "\n"


def _linked(text: str) -> str:
    return re.sub(r"docs/([a-z-]+)\.md", r"[\1](\1.md)", texts.escaped(text))
