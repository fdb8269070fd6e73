"""What pyinfra's own words come down to, in one line."""

from __future__ import annotations

import re

from operations.plan.config.plain import plain

_ERROR = re.compile(r"^--> pyinfra error(?: in .*? line \d+)?:\s*", re.MULTILINE)
#: What is wrong in the owner's files is said before any step (operations/runner/given.py); up to pyinfra's next line.
_REFUSED = re.compile(r"this has to be put right first:(.*?)(?=^-->|\Z)", re.MULTILINE | re.DOTALL)
_NODE = re.compile(r"^\s*\[[^\]]+\] ")
_LENGTH = 400


def why(text: str) -> str:
    """Why a run of pyinfra ended badly: the step that failed says so above its `Error`, else pyinfra at its end."""
    lines = re.sub(r"\x1b\[[0-9;]*m", "", text).splitlines()
    for number, line in enumerate(lines):
        if "Error: executed" in line:
            # A step's words may go on over several lines; the first of them names its node.
            first = next((n for n in range(number - 1, -1, -1) if _NODE.match(lines[n])), number - 1)
            return _one([_NODE.sub("", lines[first]), *lines[first + 1 : number]])
    text = "\n".join(lines)
    if found := _REFUSED.search(text):
        return _one(found[1].splitlines())
    if found := _ERROR.search(text):
        said = _one(text[found.end() :].splitlines())
        absent = [line for line in lines if " does not answer " in line or " lets us in " in line]
        return _one([*absent, said]) if said == "no node answers" else said
    return _one(lines[-1:]) or "it ended without a word"


def _one(lines: list[str]) -> str:
    return plain(" ".join(" ".join(lines).split()))[:_LENGTH]
