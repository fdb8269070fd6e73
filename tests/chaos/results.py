"""What was seen of each fault, kept in docs/faults.json and shown in docs/faults.md: it need not be seen in one go."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from tests.chaos import markdown
from tests.chaos.row import Row
from tests.lab.cluster import ROOT

PATH, PAGE = ROOT / "docs/faults.json", ROOT / "docs/faults.md"
#: What virtual machines alone have.
MACHINES = (
    *("tests/lab/qemu", "tests/lab/on_machines", "tests/lab/on_vllm_double", "tests/lab/images/vllm_double"),
    "tests/chaos/machines",
)


def code(without: Sequence[str] = MACHINES) -> str:
    """The last commit of what rows are seen with, which is all but documentation, the files of tests and what else is
    to be left out; `-dirty`: and changes in none.
    """
    what = ["--", ".", ":!*.md", ":!docs", ":!tests/*/test_*.py", *(f":!{each}" for each in without)]
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
    rows = markdown.in_order([*rows, row])
    write(PATH, json.dumps([each.as_dict() for each in rows], indent=1) + "\n")
    write(PAGE, markdown.page(rows))


def write(path: Path, text: str) -> None:
    """Whole, or not at all."""
    aside = path.with_suffix(".part")
    aside.write_text(text)
    aside.rename(path)
