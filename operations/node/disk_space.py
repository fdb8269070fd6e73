"""Whether what is to come fits, asked before its first byte."""

from __future__ import annotations

import shutil
from pathlib import Path


def fits(place: Path, size: int) -> None:
    """Raises OSError when there is no room for so many bytes where `place` is, or will be."""
    while not place.exists():
        place = place.parent
    free = shutil.disk_usage(place).free
    if size > free:
        raise OSError(f"{size / 1e9:.2f} GB are to come, {place} has {free / 1e9:.2f} GB free: make room; nothing came")
