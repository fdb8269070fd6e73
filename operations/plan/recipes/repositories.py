"""Repositories that were fetched when the owner asked for it: where they lie on this machine, at which commit."""

from __future__ import annotations

import os
import re
from pathlib import Path

#: `<host>-<owner>-<name>@<commit>`, of one that is whole; others are on their way or were broken off.
_WHOLE = re.compile(r"[\w.-]+@[0-9a-f]{40}")


def store() -> Path:
    """The folder of them all, in the user's cache."""
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "tandem/repositories"


def fetched() -> list[Path]:
    """Those that are whole, by name."""
    try:
        return sorted(path for path in store().iterdir() if _WHOLE.fullmatch(path.name) and path.is_dir())
    except OSError:
        return []


def place(url: str, commit: str) -> Path:
    """Where a repository lies at a commit."""
    name = re.sub(r"[^\w.-]+", "-", re.sub(r"^[\w+]+://|\.git/?$", "", url)).strip("-")
    return store() / f"{name}@{commit}"
