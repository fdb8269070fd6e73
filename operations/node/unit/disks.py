"""Models on this node's disks, and what engines have compiled: how much, whole or not, and who uses it."""

from __future__ import annotations

import re
import shutil
from collections.abc import Iterable, Mapping
from pathlib import Path

from operations.node.commands import read
from operations.node.login import expand
from operations.node.model import held, marks, proof, store
from operations.node.unit import served, services
from operations.paths import CACHE, ETC
from operations.wire.disks import Kernels, OnDisk, Shelf

#: Scripts of units, which name what they load and the image that they start.
SCRIPTS = Path(ETC)
KERNELS = Path(CACHE)
_MODEL = re.compile(r"(models--[\w.-]+)/snapshots/([\w.-]+)")
_IMAGE = re.compile(r"\btandem/\w+:([0-9a-f]{12})\b")
#: How systemd calls a unit that does not run.
_AT_REST = ("", "inactive", "failed")

#: What is named -> units that name it and run, and those that do not.
Users = Mapping[str, tuple[list[str], list[str]]]


def main(store_: str) -> Shelf:
    """All of it. `store_`: the folder of the models."""
    place, users = Path(expand(store_)), users_of()
    models = [each for repo in store.repositories(place) for each in _models(repo, users)]
    holders = held.main({key for each in models for key in each["files"]})
    for each in models:
        who = sorted({holders[key] for key in each["files"] if key in holders})
        each["busy"] += [f"{name} has a file of it open" for name in who]
    there = next(each for each in (place, *place.parents) if each.exists())
    plans = served.plans_of(read(served.PLACE))
    return {
        "models": models,
        "kernels": _kernels(users),
        "needs": [each for plan in plans for each in served.needs(plan)],
        "images": [name for plan in plans for name in plan["images"]],
        "free": shutil.disk_usage(there).free,
    }


def users_of() -> Users:
    """Who names a revision (`FOLDER/REVISION`) or an image's tag in a script of its own."""
    named: dict[str, set[str]] = {}
    for script in sorted(SCRIPTS.glob("*/*.sh")):
        text = read(script)
        for what in {*(f"{folder}/{revision}" for folder, revision in _MODEL.findall(text)), *_IMAGE.findall(text)}:
            named.setdefault(what, set()).add(f"tandem-{script.parent.name}")
    units = sorted({unit for each in named.values() for unit in each})
    states = services.unit_states(units) if units else {}
    running = {unit for unit in units if states[unit].get("ActiveState", "") not in _AT_REST}
    return {what: (sorted(each & running), sorted(each - running)) for what, each in named.items()}


def _models(repo: Path, users: Users) -> Iterable[OnDisk]:
    """The revisions of a repository, and what none of them has."""
    snapshots = store.snapshots(repo)
    for snapshot in snapshots:
        state = proof.main(str(repo.parent), repo.name, snapshot.name, _kind(snapshot))
        busy, units = users.get(f"{repo.name}/{snapshot.name}", ([], []))
        whole = "" if state["problems"] else "proven" if state["proven"] else "structure"
        yield {
            "folder": repo.name,
            "revision": snapshot.name,
            "files": store.files(snapshot),
            "whole": whole,
            "problems": state["problems"],
            "brought": bool(marks.since(repo.name, snapshot.name, marks.BROUGHT)),
            "pinned": bool(marks.since(repo.name, snapshot.name, marks.PINNED)),
            "served": marks.since(repo.name, snapshot.name, marks.SERVED),
            "busy": [f"{unit} uses it" for unit in busy],
            "units": units,
        }
    if lost := store.left_over(repo):
        ours = [bool(marks.since(repo.name, each.name, marks.BROUGHT)) for each in snapshots]
        yield {
            "folder": repo.name,
            "revision": "",
            "files": {key: size for files in lost.values() for key, size in files.items()},
            "whole": "",
            "problems": [f"no revision has {len(lost)} of its files: a download or a removal was broken off"],
            # In a folder with revisions of the owner's they may be theirs.
            "brought": all(ours) and (bool(ours) or marks.has_brought(repo.name)),
            "pinned": False,
            "served": 0.0,
            "busy": [],
            "units": [],
        }


def _kind(snapshot: Path) -> str:
    """What its files say that it is; one without weights may be a tokenizer's."""
    names = {each.name for each in snapshot.rglob("*")}
    if "adapter_config.json" in names:
        return "adapter"
    if any(name.endswith((".safetensors", ".bin", ".index.json")) for name in names):
        return "model"
    return "gguf" if any(name.endswith(".gguf") for name in names) else "files"


def _kernels(users: Users) -> list[Kernels]:
    found = list[Kernels]()
    for place in sorted(each for each in KERNELS.glob("*") if each.is_dir()):
        busy, units = users.get(place.name, ([], []))
        size = sum(store.files(place).values())
        found.append({"tag": place.name, "bytes": size, "busy": [f"{unit} uses it" for unit in busy], "units": units})
    return found
