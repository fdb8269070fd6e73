"""What was seen of each fault, kept in chaos.json: a matrix of hours need not be done in one piece."""

from __future__ import annotations

import json
import subprocess
from typing import Any

from tests.chaos.row import Row
from tests.e2e.cluster import ROOT

PATH = ROOT / "chaos.json"


def code() -> str:
    """The last commit of anything but documentation: what rows are seen with; `-dirty`: and changes in none."""
    what = ["--", ".", ":!*.md"]
    commit = _git("log", "-1", "--format=%h", "--abbrev=12", *what)
    return commit + ("-dirty" if _git("status", "--porcelain", *what) else "")


def _git(*argv: str) -> str:
    return subprocess.run(["git", *argv], cwd=ROOT, capture_output=True, text=True, check=False).stdout.strip()


def read() -> list[Row]:
    """Rows of earlier runs."""
    rows: list[dict[str, Any]] = json.loads(PATH.read_text()) if PATH.exists() else []
    return [Row(**row) for row in rows]


def keep(row: Row) -> None:
    """In place of what was seen of the same fault before."""
    rows = [each for each in read() if (each.scene, each.fault) != (row.scene, row.fault)]
    aside = PATH.with_suffix(".part")
    aside.write_text(json.dumps([each.as_dict() for each in (*rows, row)], indent=1))
    aside.rename(PATH)
