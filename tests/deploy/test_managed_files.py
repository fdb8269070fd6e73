"""Files that a deploy writes: whole under their name, or not at all."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from operations.plan.config.files import File
from operations.runner.managed_files import write


def put(path: Path, content: str, limit: str = "") -> int:
    """Write a file as on a node, with a limit of the shell's."""
    command = write(File(str(path), content)).get_raw_value()
    return subprocess.run(["sh", "-c", f"{limit}{command}"], input=content, text=True, check=False).returncode


def test_a_file_is_replaced(tmp_path: Path) -> None:
    path = tmp_path / "new" / "unit.service"
    assert put(path, "one") == 0
    assert put(path, "two") == 0
    assert path.read_text() == "two"


@pytest.mark.parametrize("before", ["", "old"])
def test_where_it_does_not_fit_nothing_is_left_of_it(tmp_path: Path, before: str) -> None:
    path = tmp_path / "unit.service"
    if before:
        path.write_text(before)
    # A limit of 512 bytes on a file's size stands for a disk that is full.
    assert put(path, "x" * 100_000, "ulimit -f 1; trap '' XFSZ; ") != 0
    assert [file.read_text() for file in tmp_path.iterdir()] == ([before] if before else [])
