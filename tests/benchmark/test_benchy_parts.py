"""What llama-benchy needs of the head: an ssh's double sends it."""

from __future__ import annotations

import io
import tarfile
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from bench import benchy_parts


def test_a_tokenizer_is_unpacked_by_a_python_that_has_no_filters(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Python 3.11.2, which is Debian 12's, refuses the word `filter`. No name leads out of the folder."""

    def older(self: tarfile.TarFile, path: str = ".", members: Any = None, *, numeric_owner: bool = False) -> None:
        raise AssertionError("it would follow every name")

    monkeypatch.setattr(tarfile.TarFile, "extractall", older)
    with tarfile.open(tmp_path / "sent.tar", "w") as archive:
        for name in ("tokenizer.json", "../vocab.json"):
            member = tarfile.TarInfo(name)
            member.size = len(name)
            archive.addfile(member, io.BytesIO(name.encode()))
    ssh = tmp_path / "ssh_double"
    ssh.write_text(f"#!/bin/sh\nexec cat {tmp_path}/sent.tar\n")
    ssh.chmod(0o755)
    monkeypatch.setattr(benchy_parts, "login", lambda _data: [str(ssh)])
    measurement: Any = SimpleNamespace(
        asked=SimpleNamespace(tokenizer=None),
        folder=SimpleNamespace(path=tmp_path / "run"),
        session=SimpleNamespace(ssh={}),
        deployed=SimpleNamespace(recipe={"model": {"repo": "org/model"}}, knobs={"model_store": "~/hub"}),
    )
    folder = benchy_parts.tokenizer(measurement)
    assert {each.name: each.read_text() for each in folder.iterdir()} == {
        "tokenizer.json": "tokenizer.json",
        "vocab.json": "../vocab.json",
    }
    assert folder == tmp_path / "run/tokenizer" and not (tmp_path / "run/vocab.json").exists()
