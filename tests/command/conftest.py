"""What tests of the command share."""

from __future__ import annotations

import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from operations.command.app import main
from tests.support.command_line import OFF, PLAIN

Typed = Callable[..., subprocess.CompletedProcess[str]]


@pytest.fixture
def typed_here(capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Typed:
    """As `tandem`, in this process: a start of Python with its imports costs more than most lines do."""

    def run(folder: Path, *words: str) -> subprocess.CompletedProcess[str]:
        monkeypatch.chdir(folder)
        capfd.readouterr()
        code = main(list(words))
        told = capfd.readouterr()
        return subprocess.CompletedProcess(words, code, told.out, told.err)

    for name, value in PLAIN.items():
        monkeypatch.setenv(name, value)
    return run


@pytest.fixture
def off(tmp_path: Path) -> Path:
    """An owner's folder whose two nodes do not answer."""
    (tmp_path / "inventory.py").write_text(OFF)
    return tmp_path
