"""group_data/all.py as text: each knob with its value, its comment and its section."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

ALL = Path(__file__).parent.parent / "group_data" / "all.py"


@dataclass(frozen=True)
class Declared:
    """Knobs that stand under one comment, with their values as they are written."""

    section: str
    comment: tuple[str, ...]
    values: dict[str, str]


def declared() -> Iterator[Declared]:
    """In the file's order; what begins with an underscore is pyinfra's."""
    text = ALL.read_text()
    assigned = {
        node.lineno: (node.targets[0].id, ast.get_source_segment(text, node.value) or "")
        for node in ast.parse(text).body
        if isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Name)
    }
    section, comment, values = "", list[str](), dict[str, str]()
    for number, line in enumerate([*text.splitlines(), ""], start=1):
        if number in assigned:
            name, value = assigned[number]
            values[name] = value
            continue
        if values:
            if not next(iter(values)).startswith("_"):
                yield Declared(section, tuple(comment), values)
            comment, values = [], {}
        if title := re.fullmatch(r"# -+ (.+?) -+", line):
            section, comment = title[1], []
        elif line.startswith("#"):
            comment.append(line.removeprefix("#").removeprefix(" "))
