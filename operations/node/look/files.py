"""Files by content and mode."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterable
from pathlib import Path

from operations.wire.look import FileState


def main(paths: Iterable[str], folders: Iterable[str] = (), contents: bool = False) -> dict[str, FileState]:
    """path -> {sha256, mode[, text]} of the paths that exist, and of all files directly in the folders."""
    files: dict[str, FileState] = {}
    in_folders = [str(f) for folder in folders if Path(folder).is_dir() for f in Path(folder).iterdir() if f.is_file()]
    for path in [*paths, *sorted(in_folders)]:
        try:
            content = Path(path).read_bytes()
        except (FileNotFoundError, NotADirectoryError):
            continue
        mode = f"{os.stat(path).st_mode & 0o7777:o}"
        files[path] = {"sha256": hashlib.sha256(content).hexdigest(), "mode": mode}
        if contents:
            files[path]["text"] = content.decode(errors="replace")
    return files
