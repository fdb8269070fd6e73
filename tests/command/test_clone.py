"""`./tandem` of a clone: it makes its environment, and runs the command in it."""

from __future__ import annotations

import subprocess
from pathlib import Path

from tests.support.command_line import ROOT, clone_with_a_python_that_notes_what_it_is_asked


def test_the_clone_s_command_mends_an_environment_that_was_half_made(tmp_path: Path) -> None:
    """Without python3-venv Debian's Python leaves a folder with a python in it and no pip."""
    environment, notes = clone_with_a_python_that_notes_what_it_is_asked(tmp_path)
    first = subprocess.run([ROOT / "tandem", "status"], env=environment, capture_output=True, text=True, check=False)
    assert first.returncode == 2 and "apt install python3-venv" in first.stderr
    second = subprocess.run([ROOT / "tandem", "status"], env=environment, capture_output=True, text=True, check=False)
    assert second.returncode == 0, second.stderr
    assert notes.read_text().splitlines()[-1] == "-m operations.command status"


def test_the_clone_s_command_works_through_a_link(tmp_path: Path) -> None:
    environment, notes = clone_with_a_python_that_notes_what_it_is_asked(tmp_path)
    (tmp_path / "venv").mkdir()
    (tmp_path / "venv/pip").touch()
    (tmp_path / "link").symlink_to(ROOT / "tandem")
    subprocess.run([tmp_path / "link", "status"], env=environment, capture_output=True, check=True)
    installed = next(line for line in notes.read_text().splitlines() if line.startswith("-m pip install"))
    assert installed.endswith(f"-r {ROOT}/requirements.lock")
