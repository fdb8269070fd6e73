"""The command as it is typed: `tandem`, and what it says."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

#: The repository.
ROOT = Path(__file__).parents[2]
#: Its help, as it was read.
HELP = ROOT / "tests/command/help.txt"
#: An inventory of two nodes that do not answer.
OFF = 'nodes = [("spark-1", {"ssh_hostname": "127.0.0.1", "ssh_port": 1}), '
OFF += '("spark-2", {"ssh_hostname": "127.0.0.1", "ssh_port": 2})]\n'
#: A terminal's environment in which text is the same everywhere.
PLAIN = {"NO_COLOR": "1", "COLUMNS": "100", "TERMINAL_WIDTH": "100"}


def tandem(
    folder: Path, *words: str, root: Path = ROOT, python: str = sys.executable, more: Mapping[str, str] | None = None
) -> subprocess.CompletedProcess[str]:
    """What comes of a line, typed in a folder; `more`: of its environment."""
    environment = {**os.environ, **PLAIN, "PYTHONPATH": str(root), **(more or {})}
    argv, nobody = [python, "-m", "operations.command", *words], subprocess.DEVNULL
    return subprocess.run(argv, cwd=folder, env=environment, stdin=nobody, capture_output=True, text=True, check=False)


def clone_with_a_python_that_notes_what_it_is_asked(tmp_path: Path) -> tuple[dict[str, str], Path]:
    """The environment for `./tandem`, and the notes; pip is there behind a second `-m venv`."""
    notes, python = tmp_path / "notes", tmp_path / "python"
    python.write_text(
        f"""#!/bin/sh
echo "$*" >> {notes}
case "$*" in
"-m venv "*) mkdir -p "$3/bin"; [ ! -e "$3/bin/python" ] || touch "$3/pip"; cp "$0" "$3/bin/python"; [ -e "$3/pip" ] ;;
"-m pip "*) [ -e "${{0%/bin/python}}/pip" ] ;;
esac
"""
    )
    python.chmod(0o755)
    return {**os.environ, "VENV": str(tmp_path / "venv"), "PYTHON": str(python)}, notes
