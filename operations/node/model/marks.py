"""Marks of a revision beside its proof: Tandem has fetched it, it is pinned, and when it served last.

Each is a file beside the proof; when it was written says when. That of a fetch has what it has made: the owner may
remove that, and fetch the same for themselves.
"""

from __future__ import annotations

import shutil
from pathlib import Path

from operations.node.commands import read
from operations.node.model import proof, store

#: Tandem has begun to fetch it, where nothing of it lay.
BROUGHT = "brought"
#: The owner wants it to stay.
PINNED = "pinned"
#: A plan with it has served.
SERVED = "served"
_ALL = (BROUGHT, PINNED, SERVED)


def put(folder: str, revision: str, mark: str) -> None:
    """Mark a revision, or mark it anew."""
    place = _place(folder, revision, mark)
    place.parent.mkdir(parents=True, exist_ok=True)
    place.touch()


def take(folder: str, revision: str, mark: str) -> None:
    """The revision has this mark no more."""
    _place(folder, revision, mark).unlink(missing_ok=True)


def since(folder: str, revision: str, mark: str) -> float:
    """Seconds since 1970 when it was marked last; 0: it is not."""
    try:
        return _place(folder, revision, mark).stat().st_mtime
    except OSError:
        return 0.0


def begin(snapshot: Path) -> None:
    """Tandem is about to fetch a revision. One of which something lies here already may be the owner's."""
    folder, revision = snapshot.parents[1].name, snapshot.name
    is_ours = not snapshot.is_dir() or is_brought(snapshot)
    # What an earlier fetch has made may have been removed by hand.
    take(folder, revision, BROUGHT)
    if is_ours:
        put(folder, revision, BROUGHT)


def end(snapshot: Path) -> None:
    """The fetch has ended: from now on the mark is for these files."""
    place = _place(snapshot.parents[1].name, snapshot.name, BROUGHT)
    if place.exists():
        place.write_text("\n".join(sorted(store.names(snapshot))))


def is_brought(snapshot: Path) -> bool:
    """Whether Tandem has fetched what lies here, or has begun to."""
    place = _place(snapshot.parents[1].name, snapshot.name, BROUGHT)
    made = set(read(place).split())
    # Some of them may have been mended since.
    return place.exists() and (not made or bool(made & store.names(snapshot)))


def has_brought(folder: str) -> bool:
    """Whether Tandem has begun to fetch any revision of a repository."""
    return any((proof.PROVEN / folder).glob(f"*.{BROUGHT}"))


def forget(folder: str, revision: str) -> None:
    """The revision is gone, with its proof and its marks."""
    for mark in ("json", *_ALL):
        take(folder, revision, mark)


def forget_all(folder: str) -> None:
    """The same of all revisions of a repository."""
    shutil.rmtree(proof.PROVEN / folder, ignore_errors=True)


def _place(folder: str, revision: str, mark: str) -> Path:
    return proof.PROVEN / folder / f"{revision}.{mark}"
