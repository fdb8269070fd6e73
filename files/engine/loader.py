"""Chooses how the weights are loaded, in the container, where the image's packages are (`loader = auto`).

`loader.py COMMAND...`: becomes the command, with the flags of the first way in loader.json that this image can take.
None can, or a start of this plan has failed in one (TANDEM_LOADER_FAILED says which and why; run.sh has asked
starts.py): the command as it is. It says what it does in one line, by which the start is known (phases.py).
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from operations.wire.starts import LoaderChoice

FAILED = "TANDEM_LOADER_FAILED"
#: Seconds for Python to say which packages it has.
ASK_S = 60
_ASKS = """
import importlib.metadata, json, sys
found = {}
for name in sys.argv[1:]:
    try:
        found[name] = importlib.metadata.version(name)
    except importlib.metadata.PackageNotFoundError:
        pass
print(json.dumps(found))
"""


def main(command: list[str]) -> None:
    """Becomes the command."""
    wanted: list[LoaderChoice] = json.loads(Path(__file__).with_name("loader.json").read_text())
    flags, says = chosen(wanted, os.environ.get(FAILED, ""), versions(interpreter(command[0]), wanted))
    print(says, file=sys.stderr, flush=True)
    os.execvp(command[0], [*command, *flags])


def chosen(wanted: Sequence[LoaderChoice], failed: str, has: dict[str, str]) -> tuple[list[str], str]:
    """The flags, and what is said of it."""
    if failed:
        return [], f"tandem: the weights are loaded by engine, its own way: {failed}"
    why = []
    for each in wanted:
        version = has.get(each["package"], "")
        if version and numbers(version) >= numbers(each["at_least"]):
            return each["flags"], f"tandem: the weights are loaded by {each['name']} {version}, which the image has"
        why.append(
            f"{each['package']} {version} is older than {each['at_least']}" if version else f"no {each['package']}"
        )
    told = f": the image has {', '.join(why)}" if why else ""
    return [], f"tandem: the weights are loaded by engine, its own way{told}"


def versions(python: str, wanted: Sequence[LoaderChoice]) -> dict[str, str]:
    """Those of the wanted packages that this Python has; none where it can't be asked."""
    names = [each["package"] for each in wanted]
    try:
        told = subprocess.run([python, "-c", _ASKS, *names], capture_output=True, text=True, timeout=ASK_S, check=True)
        found: dict[str, str] = json.loads(told.stdout)
    except (OSError, ValueError, subprocess.SubprocessError):
        return {}
    return found


def interpreter(program: str) -> str:
    """The Python that a script names in its first line: the engine's may be another one than ours."""
    path = shutil.which(program)
    if path:
        with open(path, "rb") as script:
            first = script.readline(300).decode(errors="replace").split()
        if first and first[0].startswith("#!") and "python" in first[0]:
            return first[0][2:]
    return sys.executable


def numbers(version: str) -> tuple[int, ...]:
    """`0.1.9.post1` and `0.1.9+cu130` as (0, 1, 9)."""
    found = []
    for part in version.split("+")[0].split("."):
        if not part.isdigit():
            break
        found.append(int(part))
    return tuple(found)


if __name__ == "__main__":
    main(sys.argv[1:])
