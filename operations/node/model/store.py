"""A store as the Hub's cache has it: which files each revision of each model has, and what no revision has.

A snapshot is a folder of links to blobs. A blob is a file that all revisions of its repository may have, or itself a
link into the Hub client's store for all models. A file is known by where it lies on the disk, whatever leads there.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator, Set
from pathlib import Path

#: Begins the name of what is on its way out, beside its place: no reader of a cache takes it for a model.
GONE = ".gone-"
#: What a repository's folder has; whatever else lies there is the owner's.
_PARTS = {"blobs", "snapshots", "refs", ".no_exist"}
#: Device and inode -> bytes.
Files = dict[str, int]


def repositories(store: Path) -> list[Path]:
    """Folders of models."""
    return sorted(each for each in store.glob("models--*") if each.is_dir())


def snapshots(repo: Path) -> list[Path]:
    """Folders of its revisions."""
    place = repo / "snapshots"
    return sorted(each for each in place.iterdir() if each.is_dir()) if place.is_dir() else []


def files(folder: Path) -> Files:
    """The files that it has or that links in it lead to, each once; a link that leads nowhere is left out."""
    return dict(found for each in _within(folder) if (found := _file(each)))


def names(snapshot: Path) -> set[str]:
    """By what each name in a snapshot is known from one that was made later: a disk gives an inode anew."""
    found = [each.lstat() for each in _within(snapshot)]
    return {f"{each.st_ino}:{each.st_mtime_ns}" for each in found}


def left_over(repo: Path) -> dict[Path, Files]:
    """Blobs that no revision has, and what an end that was broken off has left, each with what it holds."""
    had = {key for each in snapshots(repo) for key in files(each)}
    blobs = sorted(_within(repo / "blobs"))
    held = {each: dict([found]) if (found := _file(each)) else {} for each in blobs}
    abroad = _of_others(repo)
    lost = {each: files for each, files in held.items() if not files.keys() & had and _real(each) not in abroad}
    return {**lost, **{each: {} for each in sorted(repo.glob(f"{GONE}*"))}}


def remove(repo: Path, revision: str) -> None:
    """Take a revision away. It has no name any more before its first file goes, and what others have stays.

    Where it is broken off in between, `left_over` finds what is left. Raises OSError.
    """
    snapshot, aside = repo / "snapshots" / revision, repo / f"{GONE}{revision}"
    drop(aside)
    snapshot.rename(aside)
    for reference in _within(repo / "refs"):
        if reference.read_bytes().strip() == revision.encode():
            reference.unlink()
    shutil.rmtree(repo / ".no_exist" / revision, ignore_errors=True)
    # What a link leads to is the owner's.
    _sweep(repo, set() if aside.is_symlink() else set(_blobs(repo, aside)))
    drop(aside)
    _close(repo)


def remove_left_over(repo: Path, but: Set[str] = frozenset()) -> None:
    """Take away what no revision has, but for these files: somebody has them open. Raises OSError."""
    found = left_over(repo)
    _sweep(repo, {each for each, held in found.items() if not held.keys() & but and not each.name.startswith(GONE)})
    for each in found:
        if each.name.startswith(GONE):
            drop(each)
    _close(repo)


def drop(folder: Path) -> None:
    """Remove a folder, or a link to one with nothing of what it leads to. One that is not there is gone already.

    Raises OSError.
    """
    if folder.is_symlink():
        folder.unlink()
    elif folder.exists():
        shutil.rmtree(folder)


def _sweep(repo: Path, blobs: set[Path]) -> None:
    """Remove those of these blobs that no revision of any repository has; where one leads on, also what nothing else
    leads to.
    """
    ours = {blob for each in snapshots(repo) for blob in _blobs(repo, each)}
    abroad, further = _of_others(repo), {}
    for blob in sorted(each for each in blobs - ours if _real(each) not in abroad):
        if blob.is_symlink():
            further[Path(os.path.realpath(blob))] = _file(blob)
        blob.unlink(missing_ok=True)
    if not further:
        return
    store = Path(os.path.realpath(repo.parent))
    others = {key for each in repositories(repo.parent) for key in [*files(each / "blobs"), *files(each / "snapshots")]}
    for target, found in further.items():
        # What lies outside of the store is nobody's to remove who has seen the store alone.
        if found and found[0] not in others and target.is_relative_to(store):
            target.unlink(missing_ok=True)


def _close(repo: Path) -> None:
    """Remove a repository's folder in which nothing is left, with its locks. One that is a link is the owner's."""
    is_empty = not any(_within(repo / "blobs")) and not snapshots(repo)
    if repo.is_symlink() or not is_empty or {each.name for each in repo.iterdir()} - _PARTS:
        return
    aside = repo.with_name(f"{GONE}{repo.name}")
    drop(aside)
    repo.rename(aside)
    drop(aside)
    shutil.rmtree(repo.parent / ".locks" / repo.name, ignore_errors=True)


def _blobs(repo: Path, snapshot: Path) -> Iterator[Path]:
    """Blobs of the repository that a snapshot's links name, also while it is aside; one that names a file elsewhere
    has been made by the owner.
    """
    # A link says the way from where it was made.
    begin, blobs = repo / "snapshots" / snapshot.name.removeprefix(GONE), Path(os.path.realpath(repo / "blobs"))
    for each in _within(snapshot):
        if each.is_symlink():
            blob = _real((begin / each.relative_to(snapshot)).parent / os.readlink(each))
            if blob.parent == blobs:
                yield repo / "blobs" / blob.name


def _of_others(repo: Path) -> set[Path]:
    """Places that links of the other repositories name. Hard links are no matter: each is a file of its own."""
    others = [each for each in repositories(repo.parent) if each.name != repo.name]
    links = (link for each in others for part in ("snapshots", "blobs") for link in _within(each / part))
    return {_real(link.parent / os.readlink(link)) for link in links if link.is_symlink()}


def is_linked(repo: Path) -> bool:
    """Whether other repositories have links to files of this one."""
    blobs = Path(os.path.realpath(repo / "blobs"))
    return any(each.parent == blobs for each in _of_others(repo))


def _real(place: Path) -> Path:
    """The place without links and `..` on the way to it; what lies there may be a link itself."""
    return Path(os.path.realpath(place.parent), place.name)


def _within(folder: Path) -> Iterator[Path]:
    """All that is no folder below one."""
    for place, _, names in os.walk(folder):
        yield from (Path(place, name) for name in names)


def _file(path: Path) -> tuple[str, int] | None:
    try:
        found = path.stat()
    except OSError:
        return None
    return f"{found.st_dev}:{found.st_ino}", found.st_size
