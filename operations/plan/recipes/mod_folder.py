"""What lies in a mod's folder, and what may not: a build takes files, and nothing from outside of it."""

from __future__ import annotations

import os
import re
import stat
from collections.abc import Iterator
from pathlib import Path

#: MiB of all its files: a mod is patches and templates. What is built travels through memory.
LIMIT_MIB = 256
#: What is no part of a mod, nor of an image's folder: macOS writes a .DS_Store where somebody has looked.
_LEFT_OUT = ("__pycache__", ".git", ".DS_Store")


def is_mod(folder: Path) -> bool:
    """Whether it is a folder with a mod.yaml or a run.sh."""
    try:
        return any((folder / name).is_file() for name in ("mod.yaml", "run.sh"))
    except (OSError, ValueError):
        return False


def faults(folder: Path) -> list[tuple[str, str]]:
    """What a mod may not be, as problem and remedy. Its folder is there."""
    found = []
    if not re.fullmatch(r"\w[\w.+-]*", folder.name, re.ASCII):
        found.append((f"its name is {folder.name!r}", "rename it: letters, digits, and . _ + - behind the first"))
    size = 0
    for path in entries(folder):
        name = os.fspath(path.relative_to(folder))
        if not name.isprintable() or "\ufffd" in name or any("\ud800" <= char <= "\udfff" for char in name):
            found.append((f"the name of its file {name!a} can't be copied", "rename the file"))
        elif path.is_symlink() and not _stays(path, folder):
            found.append((f"its {name} is a link to {os.readlink(path)}", "put the file itself into the folder"))
        elif not path.is_symlink() and not stat.S_ISREG(path.lstat().st_mode):
            found.append((f"its {name} is no file", "a mod is made of files: take it out of the folder"))
        elif not os.access(path, os.R_OK):
            found.append((f"its {name} can't be read", f"chmod u+r {name}"))
        else:
            size += path.stat().st_size >> 10
    if size >> 10 > LIMIT_MIB:
        found.append((f"it is {size >> 10} MiB, a mod is {LIMIT_MIB} at most", "let its run.sh fetch what is large"))
    return found


def content(folder: Path) -> list[tuple[str, bytes]]:
    """Names below the folder, and what is in them, a link's as a file's; a folder without faults."""
    return [(path.relative_to(folder).as_posix(), path.read_bytes()) for path in entries(folder)]


def entries(folder: Path) -> list[Path]:
    """All that is in the folder and is not a folder, in order; links are not followed."""
    return sorted(_walk(folder))


def _walk(folder: Path) -> Iterator[Path]:
    for path in folder.iterdir():
        if path.name in _LEFT_OUT:
            continue
        if path.is_dir() and not path.is_symlink():
            yield from _walk(path)
        else:
            yield path


def _stays(link: Path, folder: Path) -> bool:
    """Whether a link leads to a file of the same folder."""
    try:
        target = link.resolve(strict=True)
    except (OSError, RuntimeError):
        return False
    return target.is_file() and target.is_relative_to(folder.resolve())
