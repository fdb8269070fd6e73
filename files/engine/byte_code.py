"""Where Python keeps the byte code of an image that has none: `byte_code.py PACKAGE`, before the engine's command.

Images that are made by uv have no byte code unless they ask for it (astral-sh/uv #1788), and vLLM's do not (vLLM
#55422). Each new container would compile thousands of files once more. Prints a folder that outlives the container, or
nothing where PACKAGE, the engine's own, is compiled already: Python would look there and nowhere else.
"""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path

KEPT = "/root/.cache/pycache"


def main(package: str) -> str:
    """The folder; empty: the image has byte code, or this Python has no such package."""
    spec = importlib.util.find_spec(package)
    if spec is None or not spec.origin:
        return ""
    return "" if Path(importlib.util.cache_from_source(spec.origin)).exists() else KEPT


if __name__ == "__main__":
    print(main(sys.argv[1]), end="")
