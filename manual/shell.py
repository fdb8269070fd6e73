"""What a node's scripts say while a start waits: the words behind `echo` in a template."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

from manual.modules import ROOT
from manual.sites import Message

#: `echo`, its words, and where they go; what follows in the line is another command.
_ECHO = re.compile(r'\becho ((?:"(?:\\.|[^"\\])*"|\{\{.*?\}\}|[\w$]+|[ \t])+)')
_DATA = re.compile(r"\{\{ *(\w+).*?\}\}|\$\{(\w+)[^}]*\}|\$(\w+)")


def messages(path: str) -> Iterator[Message]:
    """Every sentence of a script's, in its order."""
    text = re.sub(r"\\\n\s*", "", (ROOT / path).read_text())
    for found in _ECHO.finditer(text):
        words = re.sub(r'\\(.)|"', lambda sign: sign[1] or "", found[1])
        said = _DATA.sub(_named, words).strip()
        if " " in said:
            yield Message(path, text.count("\n", 0, found.start()) + 1, " ".join(said.split()))


def _named(data: re.Match[str]) -> str:
    name = next(filter(None, data.groups()))
    return f"<{'...' if name.isdigit() else name.replace('_', ' ')}>"


def scripts() -> list[str]:
    """Those of the units that wait."""
    found = [*Path(ROOT / "files").rglob("*.sh.j2"), *Path(ROOT / "files").rglob("*.sh")]
    return sorted(str(each.relative_to(ROOT)) for each in found)
