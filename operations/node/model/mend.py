"""Setting aside the files of a model that are not whole, so that they are fetched again, alone."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path

from operations.node.model import proof
from operations.wire.model import Mended


def main(store: str, folder: str, revision: str, kind: str = "model", only: Sequence[str] = ()) -> Mended:
    """`aside`: the names that were set aside; found by structure, and by content where that was not proven. `only`:
    patterns of the files that are looked at; none: all.
    """
    snapshot = Path(store) / folder / "snapshots" / revision
    if not snapshot.is_dir():
        return {"aside": []}
    files = proof.manifest(snapshot, only)
    unproven = proof.unproven_names(snapshot, files)
    problems = proof.structure_problems(snapshot, kind, only=only) + proof.prove_content(snapshot, files, unproven)
    bad = sorted({problem.name for problem in problems} & files.keys())
    for name in bad:
        set_aside(snapshot / name)
    return {"aside": bad}


def set_aside(file: Path) -> None:
    """Its blob is kept under another name until the right one has its place: a hash decides, not a size.

    In the Hub client's shared store the link alone is renamed: other models may have the blob too.
    """
    blob = file.parent / os.readlink(file) if file.is_symlink() else file
    blob.rename(blob.with_name(f"{blob.name}.broken"))
