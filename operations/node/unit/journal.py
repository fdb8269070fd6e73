"""What a unit has logged since its last start, read on from where the reader was."""

from __future__ import annotations

import re
import signal
import subprocess
from collections.abc import Sequence

from operations.node.commands import output
from operations.wire.unit import Journal

#: Characters of a line that are looked at, and seconds of computing for one pattern on one line.
LINE, SECONDS = 4_000, 1.0


class Slow(Exception):
    """A pattern takes too long."""


def main(unit: str, patterns: Sequence[str], invocation: str = "", cursor: str = "") -> Journal:
    """`seen`: pattern -> the first line that it matches; `slow`: those that took too long on one; `invocation` and
    `cursor`: where to go on.

    A unit that was started anew is read from its beginning.
    """
    current = output("systemctl", "show", f"{unit}.service", "--property=InvocationID", "--value").strip()
    if not current:
        return {"seen": {}, "slow": [], "invocation": "", "cursor": ""}
    argv = ["journalctl", f"_SYSTEMD_INVOCATION_ID={current}", "--no-pager", "--output=cat", "--show-cursor", "--quiet"]
    if current == invocation and cursor:
        argv.append(f"--after-cursor={cursor}")
    lines = subprocess.run(argv, capture_output=True, text=True, errors="replace", check=False).stdout.splitlines()
    if lines and lines[-1].startswith("-- cursor: "):
        cursor = lines.pop().removeprefix("-- cursor: ")
    slow: list[str] = []
    return {"seen": matches(lines, patterns, slow), "slow": slow, "invocation": current, "cursor": cursor}


def matches(lines: Sequence[str], patterns: Sequence[str], slow: list[str] | None = None) -> dict[str, str]:
    """pattern -> the first line that it matches. One that takes too long on a line is given up, and put into `slow`.

    Python's `re` looks for signals while it searches: a timer of the process's own computing ends it.
    """
    compiled = {pattern: re.compile(pattern) for pattern in patterns}
    seen: dict[str, str] = {}
    before = signal.signal(signal.SIGVTALRM, _too_slow)
    try:
        for line in lines:
            for pattern, expression in list(compiled.items()):
                try:
                    signal.setitimer(signal.ITIMER_VIRTUAL, SECONDS)
                    found = pattern not in seen and expression.search(line[:LINE])
                except Slow:
                    del compiled[pattern]
                    if slow is not None:
                        slow.append(pattern)
                    continue
                if found:
                    seen[pattern] = line.strip()
    finally:
        signal.setitimer(signal.ITIMER_VIRTUAL, 0)
        signal.signal(signal.SIGVTALRM, before)
    return seen


def _too_slow(*_: object) -> None:
    raise Slow
