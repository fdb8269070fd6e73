"""What a unit has logged since its last start, read on from where the reader was."""

from __future__ import annotations

import re
import subprocess
from collections.abc import Sequence
from typing import Any

from operations.node.commands import output


def main(unit: str, patterns: Sequence[str], invocation: str = "", cursor: str = "") -> dict[str, Any]:
    """`seen`: pattern -> the first line that it matches; `invocation` and `cursor`: where to go on.

    A unit that was started anew is read from its beginning.
    """
    current = output("systemctl", "show", f"{unit}.service", "--property=InvocationID", "--value").strip()
    if not current:
        return {"seen": {}, "invocation": "", "cursor": ""}
    argv = ["journalctl", f"_SYSTEMD_INVOCATION_ID={current}", "--no-pager", "--output=cat", "--show-cursor", "--quiet"]
    if current == invocation and cursor:
        argv.append(f"--after-cursor={cursor}")
    lines = subprocess.run(argv, capture_output=True, text=True, errors="replace", check=False).stdout.splitlines()
    if lines and lines[-1].startswith("-- cursor: "):
        cursor = lines.pop().removeprefix("-- cursor: ")
    return {"seen": matches(lines, patterns), "invocation": current, "cursor": cursor}


def matches(lines: Sequence[str], patterns: Sequence[str]) -> dict[str, str]:
    """pattern -> the first line that it matches."""
    compiled = {pattern: re.compile(pattern) for pattern in patterns}
    seen: dict[str, str] = {}
    for line in lines:
        for pattern, expression in compiled.items():
            if pattern not in seen and expression.search(line):
                seen[pattern] = line.strip()
    return seen
