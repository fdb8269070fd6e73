"""Is the model still what was proven? `proof.py SNAPSHOT RECORD [PATTERN...]` prints the first file that is not, or
nothing. Patterns: of the files that the engine loads, where the revision has others too (other quants).

A shard that was written to since then loads without a word, and the engine answers nonsense. Size, time and inode
tell, without reading a byte; what the disk itself forgets, only `tandem verify --deep` finds.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence
from fnmatch import fnmatchcase
from pathlib import Path


def changed(snapshot: Path, record: Path, only: Sequence[str] = ()) -> str:
    """Why the model is not what was proven; empty: it is, or nothing was ever proven."""
    try:
        known: dict[str, list[int]] = json.loads(record.read_text())
    except (OSError, ValueError):
        return ""
    for name, stamp in known.items():
        if only and not any(fnmatchcase(name, each) for each in only):
            continue
        file = snapshot / name
        if not file.exists():
            return f"{file} is gone; `tandem apply` fetches it again"
        seen = file.stat()
        if [seen.st_size, seen.st_mtime_ns, seen.st_ino] != stamp:
            return f"{file} has been changed since it was proven; `tandem apply` proves it, or fetches it again"
    return ""


if __name__ == "__main__":
    if why := changed(Path(sys.argv[1]), Path(sys.argv[2]), sys.argv[3:]):
        print(why)
