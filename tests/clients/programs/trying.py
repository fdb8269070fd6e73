"""For programs beside this one: each task once, and a line of JSON for what came of it. In the client's own Python."""

from __future__ import annotations

import base64
import json
import os
import time
import urllib.request
from collections.abc import Callable
from pathlib import Path

URL, KEY, ENGINE = os.environ["DOOR"], os.environ["DOOR_KEY"], os.environ["ENGINE"]
MODEL, ANSWER, VECTOR = "double", "The answer is 42.", [0.5, -0.25, 0.125, 1.0]
#: Seconds of silence that a client bears here, and that an engine keeps: more than that, in its answer and before it.
PATIENCE_S, SILENT, LATE = 5.0, "SILENT 9", "LATE 9"
#: Seconds until an engine has to know that its client has gone.
GONE_S = 10
#: A picture.
PNG = base64.b64decode(
    "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="
)
DATA_URL = "data:image/png;base64," + base64.b64encode(PNG).decode()
SEEN = f"A picture of {len(PNG)} bytes."
#: What a tool of the client's does.
FILE = Path("made.txt")
CALL = 'CALL write_file {"path": "made.txt", "text": "made by a tool\\n"} END'
SCHEMA = {"type": "object", "properties": {"path": {"type": "string"}, "text": {"type": "string"}}}


def attempt(name: str, task: Callable[[], object]) -> None:
    """`task` gives nothing, or what is wrong."""
    try:
        wrong = task()
    except Exception as error:
        wrong = f"{type(error).__name__}: {error}"
    print(json.dumps({"task": name, "wrong": " ".join(str(wrong or "").split())[:300]}), flush=True)


def unless(said: object, wanted: object) -> str:
    """What is wrong."""
    return "" if said == wanted else f"{said!r}, and not {wanted!r}"


def write(arguments: str | dict[str, str]) -> str:
    """The tool."""
    said = json.loads(arguments) if isinstance(arguments, str) else arguments
    Path(said["path"]).write_text(said["text"])
    return unless(FILE.read_text(), "made by a tool\n")


def left() -> str:
    """Whether an engine still works for a client that has gone."""
    end = time.monotonic() + GONE_S
    while time.monotonic() < end:
        with urllib.request.urlopen(f"{ENGINE}/under_way") as said:
            if said.read() == b"0":
                return ""
        time.sleep(0.1)
    return f"the engine still works for it after {GONE_S} s"
