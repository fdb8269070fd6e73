"""Puts what a page is told of benches and advice (bench/advise/page.py) where it reads that (files/page/handed.py)."""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path

from operations import paths
from operations.wire.page import Taken

#: It is there where a page is.
PAGE = Path(f"{paths.folder_of(paths.PAGE)}/page.json")
PLACE = Path(paths.ADVICE)


def main() -> Taken:
    """Standard input becomes the file, whole or not at all. `page`: whether there is one here; `problem`: why not."""
    text = sys.stdin.read()
    if not PAGE.exists():
        return {"page": False}
    try:
        json.loads(text)
        PLACE.parent.mkdir(parents=True, exist_ok=True)
        for folder in (PLACE.parent.parent, PLACE.parent):
            # The page is nobody's user, whatever root's umask is.
            folder.chmod(folder.stat().st_mode & 0o7777 | 0o111)
        aside = PLACE.with_suffix(".part")
        with open(os.open(aside, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o644), "w") as out:
            os.fchmod(out.fileno(), 0o644)
            out.write(text)
        aside.replace(PLACE)
    except ValueError:
        return {"page": True, "problem": "it came here broken, and nothing was changed"}
    except OSError as error:
        return {"page": True, "problem": f"{error.filename or PLACE}: {error.strerror}"}
    return {"page": True}
