"""Which of the planned files are there, and what else lies in Tandem's folders."""

from __future__ import annotations

import hashlib
import os
from pathlib import Path
from typing import Any


def main(paths: list[str], folders: list[str], contents: bool = False) -> dict[str, Any]:
    """`files`: path -> {sha256, mode[, text]} of those that exist; `strays`: other files directly in the folders."""
    files = {}
    for path in paths:
        try:
            content = Path(path).read_bytes()
        except (FileNotFoundError, NotADirectoryError):
            continue
        mode = f"{os.stat(path).st_mode & 0o7777:o}"
        files[path] = {"sha256": hashlib.sha256(content).hexdigest(), "mode": mode}
        if contents:
            files[path]["text"] = content.decode(errors="replace")
    strays = [
        str(file)
        for folder in folders
        if Path(folder).is_dir()
        for file in sorted(Path(folder).iterdir())
        if file.is_file() and str(file) not in paths
    ]
    return {"files": files, "strays": strays}
