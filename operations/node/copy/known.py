"""Files that another model of the same store has already: they are linked, and kept once."""

from __future__ import annotations

import os
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path

from operations.node.model import proof
from operations.wire.model import ModelFile

#: Bytes of a file that is worth the look.
WORTH = 1 << 20


def main(repo: Path, files: Iterable[ModelFile]) -> int:
    """Link what lies in another model's folder, and whose content is what its name says; the bytes of it. A blob's name
    is the hash of its content: the Hub's sha256, or git's sha1.
    """
    found = 0
    for entry in {each["blob"]: each for each in files if each["size"] >= WORTH}.values():
        blob = repo / "blobs" / entry["blob"]
        if len(entry["blob"]) in (40, 64) and not os.path.lexists(blob) and _linked(blob, entry["size"]):
            found += entry["size"]
    return found


def _linked(blob: Path, size: int) -> bool:
    for other in blob.parents[2].glob(f"models--*/blobs/{blob.name}"):
        # On another disk there is no such link, and what is not whole is not wanted.
        with suppress(OSError):
            if other.stat().st_size == size and proof.content_hash(other, git=len(blob.name) == 40) == blob.name:
                aside = blob.with_name(f"{blob.name}.linked")
                aside.unlink(missing_ok=True)
                # Of a link into the client's own store the file, or it would lead nowhere from here.
                os.link(os.path.realpath(other), aside)
                aside.rename(blob)
                return True
    return False
