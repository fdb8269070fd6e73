"""Other Pythons that this machine has, and an environment of each with what a deploy needs."""

from __future__ import annotations

import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.plan.samples import ROOT

#: Where pyenv and uv keep theirs, below the home.
_KEPT = (".pyenv/versions/3.{minor}.*/bin", ".local/share/uv/python/cpython-3.{minor}.*/bin")
LOCK = ROOT / "requirements.lock"


def found(minor: int) -> list[str]:
    """Programs of Python 3.`minor` that run, the one in the path first. A shim without a Python behind it is none."""
    return [each for each in dict.fromkeys(_named(minor)) if _is(each, minor)]


def _named(minor: int) -> Iterator[str]:
    name = f"python3.{minor}"
    for each in (name, "python3"):
        if in_path := shutil.which(each):
            yield in_path
    for folder in _KEPT:
        yield from map(str, sorted(Path.home().glob(f"{folder.format(minor=minor)}/{name}")))


def _is(program: str, minor: int) -> bool:
    says = f"import sys; sys.exit(sys.version_info[:2] != (3, {minor}))"
    try:
        return subprocess.run([program, "-c", says], capture_output=True).returncode == 0
    except OSError:
        return False


def environment(minor: int) -> str:
    """The Python of an environment with what is locked, from pip's index; it stays in the tree, as .venv does.

    Skips where there is no such Python or pip's index can't be reached; fails where the index has not what is locked.
    """
    if not (programs := found(minor)):
        pytest.skip(f"no Python 3.{minor} is here (apt, pyenv or `uv python install 3.{minor}`)")
    place = ROOT / f".venv-3.{minor}"
    python, stamp = place / "bin/python", place / ".deploy"
    if not stamp.exists() or stamp.read_bytes() != LOCK.read_bytes() or not _is(str(python), minor):
        # Without pip: this environment's own can install there, and Debian's Python may have none.
        _run(programs[0], "-m", "venv", "--clear", "--without-pip", str(place))
        # What is imported is compiled then, and that is a part of it.
        words = ("--retries", "1", "--no-compile", "--require-hashes", "-r", str(LOCK))
        _run(sys.executable, "-m", "pip", "--python", str(place), "install", *words)
        shutil.copy(LOCK, stamp)
    return str(python)


def _run(*argv: str) -> None:
    done = subprocess.run(argv, capture_output=True, text=True)
    if done.returncode and "connection broken" in done.stderr:
        pytest.skip("pip's index can't be reached")
    assert done.returncode == 0, done.stderr
