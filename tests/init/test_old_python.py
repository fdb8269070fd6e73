"""A Python that is too old is told in one line, before any file that it could not read."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.plan.samples import ROOT

#: The real ones that are here (pyenv's too), and this one that says it were older.
OLDER = sorted(
    {str(each) for each in Path("~/.pyenv/versions").expanduser().glob("3.*/bin/python3.[6-9]")}
    | {str(each) for each in Path("~/.pyenv/versions").expanduser().glob("3.10.*/bin/python3.10")}
    | {found for name in ("python3.8", "python3.9", "python3.10") if (found := shutil.which(name))}
)
SAID = "tandem needs Python 3.11 or newer, and this is 3."


@pytest.mark.parametrize("python", OLDER)
def test_an_old_python_is_told(python: str) -> None:
    works = subprocess.run([python, "-c", "pass"], capture_output=True).returncode == 0
    if not works:
        pytest.skip("it is a shim without a Python behind it")
    ran = subprocess.run([python, "-m", "operations.command", "init"], cwd=ROOT, capture_output=True, text=True)
    assert ran.returncode == 1 and ran.stderr.startswith(SAID) and ran.stderr.count("\n") == 1, ran.stderr


def test_this_one_were_it_older() -> None:
    program = "import sys; sys.version_info = (3, 9, 2); import operations.command"
    ran = subprocess.run([sys.executable, "-c", program], cwd=ROOT, capture_output=True, text=True)
    assert ran.returncode == 1 and ran.stderr.startswith(f"{SAID}9: ") and ran.stderr.count("\n") == 1


def test_make_tells_it_too(tmp_path: Path) -> None:
    old = tmp_path / "python"
    old.write_text("#!/bin/sh\nexit 1\n")
    old.chmod(0o755)
    words = [f"PYTHON={old}", f"VENV={tmp_path}/venv", f"{tmp_path}/venv/bin/python"]
    ran = subprocess.run(["make", *words], cwd=ROOT, capture_output=True, text=True)
    assert "Tandem needs Python 3.11 or newer" in ran.stderr and ran.returncode == 2
    assert not (tmp_path / "venv").exists()
