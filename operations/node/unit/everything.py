"""All that Tandem has put on this node, and its removal: images, models, its own folders, the fabric's settings."""

from __future__ import annotations

import os
import re
import shutil
from collections.abc import Iterator
from pathlib import Path

from operations.node.commands import docker_inspect, output
from operations.node.login import expand
from operations.node.model import marks, proof, store
from operations.paths import ETC, FABRIC, VAR
from operations.wire.unit import Everything, Thing

_OURS = r"tandem/\w+:[0-9a-f]{12}"
#: What ETC and VAR are, in an owner's words.
_FOLDERS = {ETC: "settings, and secrets: every key of a client", VAR: "compiled kernels, counts of keys, metrics"}


def main(store_: str, remove: bool = False) -> Everything:
    """`store_`: the folder of the Hub's client, which the owner may have models of their own in: what Tandem has proven
    counts, and what is pinned stays. With `remove` all of it is gone afterwards, but for `problems`.
    """
    images, (models, revisions, stays) = list(_images()), _models(Path(expand(store_)))
    folders = [*models, *(Path(each) for each in (ETC, VAR))]
    things: list[Thing] = [{"what": f"image {' '.join(names)}", "bytes": size} for names, size in images]
    things += [{"what": _told(folder), "bytes": _size(folder)} for folder in folders if folder.is_dir()]
    things += [{"what": _told_revision(each), "bytes": sum(store.files(each).values())} for each in revisions]
    settings = [Path(each) for each in FABRIC if Path(each).is_file()]
    things += [{"what": f"{file} (the fabric)", "bytes": file.stat().st_size} for file in settings]
    problems = list[str]()
    if remove:
        for names, _ in images:
            if not output("docker", "rmi", *names, timeout_s=600):
                problems.append(f"{names[0]} is still in use: docker ps --all --filter ancestor={names[0]}")
        for each in revisions:
            try:
                store.remove(each.parents[1], each.name)
            except OSError as error:
                problems.append(f"{each} can't be removed: {error}")
        for folder in folders:
            shutil.rmtree(folder, ignore_errors=True)
            problems += [f"{folder} can't be removed"] if folder.exists() else []
        for file in settings:
            file.unlink(missing_ok=True)
    return {"things": things, "stays": stays, "problems": problems}


def _images() -> Iterator[tuple[list[str], int]]:
    """All names of each image that has one of Tandem's, and its bytes; under another name it would stay."""
    names = output("docker", "images", "--format", "{{.Repository}}:{{.Tag}}").split()
    found = docker_inspect("image", *(name for name in names if re.fullmatch(_OURS, name)))
    for image in {each["Id"]: each for each in found}.values():
        yield [*(image.get("RepoTags") or ()), *(image.get("RepoDigests") or ())], int(image.get("Size", 0))


def _models(place: Path) -> tuple[list[Path], list[Path], list[str]]:
    """Folders of models whose content has been proven here, or that Tandem has begun to fetch; single revisions, where
    others of the folder are the owner's; and what stays, and why.
    """
    known = {each.parent.name for kind in ("json", marks.BROUGHT) for each in proof.PROVEN.glob(f"models--*/*.{kind}")}
    folders, revisions, stays = list[Path](), list[Path](), list[str]()
    for repo in (each for each in store.repositories(place) if each.name in known):
        here = store.snapshots(repo)
        # An older Tandem has kept the proof alone.
        ours = [each for each in here if marks.is_brought(each)] if marks.has_brought(repo.name) else here
        if any((proof.PROVEN / repo.name).glob(f"*.{marks.PINNED}")):
            stays.append(f"{_told(repo)} stays: it is pinned")
        elif ours == here and not store.is_linked(repo):
            folders.append(repo)
        else:
            revisions += ours
            stays.append(
                f"{_told(repo)} stays but for what Tandem has fetched: other revisions, or models, have the rest"
            )
    return folders, revisions, stays


def _told(folder: Path) -> str:
    if str(folder) in _FOLDERS:
        return f"{folder}: {_FOLDERS[str(folder)]}"
    return f"model {'/'.join(folder.name.split('--')[1:])} in {folder.parent}"


def _told_revision(snapshot: Path) -> str:
    repo = snapshot.parents[1]
    return f"revision {snapshot.name[:12]} of {_told(repo)}"


def _size(folder: Path) -> int:
    """Bytes of the files in it; a link counts nothing."""
    total = 0
    for place, _, names in os.walk(folder):
        total += sum(file.lstat().st_size for name in names if not (file := Path(place, name)).is_symlink())
    return total
