"""Where Python keeps the byte code of an image that has none: `byte_code.py PACKAGE`, before the engine's command.

Images that are made by uv have no byte code unless they ask for it (astral-sh/uv #1788), and vLLM's do not (vLLM
#55422). Each new container would compile thousands of files once more. Prints a folder that outlives the container.
Prints nothing where the image has PACKAGE compiled: with the folder set, Python would not look there. Prints nothing
either where the disk is nearly full: it would cut files off.
"""

from __future__ import annotations

import importlib.util
import shutil
import sys
from pathlib import Path

from compiled import BYTE_CODE, LEAST_FREE

KEPT = Path("/root/.cache")


def main(package: str) -> str:
    """The folder; empty: the image has byte code, the disk no room, or this Python no such package."""
    spec = importlib.util.find_spec(package)
    if spec is None or not spec.origin:
        return ""
    is_compiled = Path(importlib.util.cache_from_source(spec.origin)).exists()
    return "" if is_compiled or shutil.disk_usage(KEPT).free < LEAST_FREE else str(KEPT / BYTE_CODE)


if __name__ == "__main__":
    print(main(sys.argv[1]), end="")
