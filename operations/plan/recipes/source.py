"""The text of a recipe's file, and why there is none."""

from __future__ import annotations

import errno
import os
import stat
from pathlib import Path

from operations.plan.config.refusal import Finding, Refusal
from operations.plan.recipes.bounds import FILE_KIB
from operations.plan.recipes.kinds import NoRecipe

_KINDS = (
    (stat.S_ISDIR, "a folder"),
    (stat.S_ISFIFO, "a pipe"),
    (stat.S_ISSOCK, "a socket"),
    (stat.S_ISCHR, "a device"),
    (stat.S_ISBLK, "a device"),
)
_REASONS = {
    errno.ENOENT: ("is a link to a file that is not there", "make the link anew"),
    errno.ELOOP: ("is a link that leads back to itself", "make the link anew"),
    errno.EACCES: ("can't be read: its mode forbids it", "chmod +r it, or run this as its owner"),
}


def read_text(path: Path) -> str:
    """The text of a recipe's file, without a byte order mark.

    Raises NoRecipe where there is a folder or a device. Raises Refusal for a file that can't be read, has more than
    FILE_KIB KiB, or is not UTF-8.
    """
    try:
        found = path.stat()
        what = next((name for is_kind, name in _KINDS if is_kind(found.st_mode)), "")
        if what:
            raise NoRecipe(path.name, what)
        if found.st_size > FILE_KIB * 1024:
            raise _too_large(path, found.st_size)
        with path.open("rb") as file:
            # Some of /proc say that they have no bytes, and never end.
            content = file.read(FILE_KIB * 1024 + 1)
    except OSError as error:
        reason = f"can't be read: {os.strerror(error.errno or 0)}", "see to it that it can be read"
        raise _refusal(path, *_REASONS.get(error.errno or 0, reason)) from None
    if len(content) > FILE_KIB * 1024:
        raise _too_large(path, len(content))
    try:
        return content.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = content.count(b"\n", 0, error.start) + 1
        raise _refusal(path, f"is not UTF-8 in line {line}", "save it as UTF-8") from None


def _too_large(path: Path, size: int) -> Refusal:
    problem = f"has {size / 1024:,.0f} KiB; a recipe has {FILE_KIB} KiB at most"
    return _refusal(path, problem, "name the file of a recipe")


def _refusal(path: Path, problem: str, remedy: str) -> Refusal:
    return Refusal(Finding(path.name, problem, remedy))
