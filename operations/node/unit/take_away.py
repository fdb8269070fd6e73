"""Removal of models, and of what engines have compiled, that nothing on this node uses; and the owner's pins."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from operations.node.login import expand
from operations.node.model import held, marks, store
from operations.node.unit import disks
from operations.wire.disks import Picked, Taken


def main(store_: str, picked: Sequence[Picked]) -> Taken:
    """Remove these. What is used by now stays, and is told among the problems."""
    place, users = Path(expand(store_)), disks.users_of()
    before, problems = _all(place), list[str]()
    for each in picked:
        what = each["tag"] or f"{each['folder']}/{each['revision']}"
        try:
            if busy := (
                users.get(each["tag"], ([], [])) if each["tag"] else disks.who(users, each["folder"], each["revision"])
            )[0]:
                raise OSError(f"{', '.join(busy)} uses it by now")
            _take(place, each)
        except (OSError, ValueError) as error:
            problems.append(f"{what} stays: {error}")
    after = _all(place)
    return {"freed": sum(size for key, size in before.items() if key not in after), "problems": problems}


def pin(picked: Sequence[Picked], wanted: bool) -> Taken:
    """Have these revisions stay, or no more."""
    for each in picked:
        (marks.put if wanted else marks.take)(each["folder"], each["revision"], marks.PINNED)
    return {"freed": 0, "problems": []}


def _take(place: Path, what: Picked) -> None:
    repo, revision = place / what["folder"], what["revision"]
    if what["tag"]:
        _take_kernels(disks.KERNELS / what["tag"])
        return
    if revision:
        for program in held.main(_own(repo, revision)).values():
            raise OSError(f"{program} has a file of it open")
        store.remove(repo, revision)
        marks.forget(repo.name, revision)
    else:
        lost = {key for files in store.left_over(repo).values() for key in files}
        store.remove_left_over(repo, held.main(lost).keys())
    if not repo.is_dir():
        marks.forget_all(repo.name)


def _own(repo: Path, revision: str) -> store.Files:
    """Files that no other revision of the repository has."""
    others = {key for each in store.snapshots(repo) if each.name != revision for key in store.files(each)}
    return {key: size for key, size in store.files(repo / "snapshots" / revision).items() if key not in others}


def _take_kernels(folder: Path) -> None:
    aside = folder.with_name(f"{store.GONE}{folder.name}")
    if not folder.name.startswith(store.GONE):
        store.drop(aside)
        folder = folder.rename(aside)
    store.drop(folder)


def _all(place: Path) -> store.Files:
    """Every file of models and of compiled kernels."""
    folders = [repo / part for repo in store.repositories(place) for part in ("snapshots", "blobs")]
    return {key: size for each in (*folders, disks.KERNELS) for key, size in store.files(each).items()}
