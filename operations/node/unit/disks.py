"""Models on this node's disks, and what engines have compiled: how much, whole or not, and who uses it."""

from __future__ import annotations

import re
import shutil
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path

from operations.node.commands import docker_inspect, own_containers, read
from operations.node.login import expand
from operations.node.model import held, marks, proof, store
from operations.node.unit import served, services
from operations.paths import CACHE, ENGINE, ETC
from operations.wire.disks import Kernels, OnDisk, Shelf

#: Scripts of units, which name what they load and the image that they start.
SCRIPTS = Path(ETC)
KERNELS = Path(CACHE)
_MODEL = re.compile(r"(models--[\w.-]+)/snapshots/([\w.-]+)")
_PROCESSES = Path("/proc")
_IMAGE = re.compile(r"\btandem/\w+:([0-9a-f]{12})\b")
#: How systemd calls a unit that does not run; of one that it says nothing of nobody knows, so it counts as running.
_AT_REST = ("inactive", "failed")

#: What is named -> units that name it and run, and those that do not.
Users = Mapping[str, tuple[list[str], list[str]]]


def main(store_: str) -> Shelf:
    """All of it. `store_`: the folder of the models."""
    place, users = Path(expand(store_)), users_of()
    models = [each for repo in store.repositories(place) for each in _models(repo, users)]
    holders = held.main({key for each in models for key in each["files"]})
    for each in models:
        programs = sorted({holders[key] for key in each["files"] if key in holders})
        each["busy"] += [f"{name} has a file of it open" for name in programs]
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
    # A deploy that was broken off has left scripts of what does not serve yet.
    for what, unit in _served_last():
        named.setdefault(what, set()).add(unit)
    units = sorted({unit for each in named.values() for unit in each})
    states = services.unit_states(units) if units else {}
    running = {unit for unit in units if states[unit].get("ActiveState", "") not in _AT_REST}
    for what, unit in _running():
        named.setdefault(what, set()).add(unit)
        running.add(unit)
    return {what: (sorted(each & running), sorted(each - running)) for what, each in named.items()}


def who(users: Users, folder: str, revision: str) -> tuple[list[str], list[str]]:
    """Who names this revision, or any of its repository."""
    mine = [users.get(f"{folder}/{each}", ([], [])) for each in dict.fromkeys((revision, ""))]
    return sorted({unit for busy, _ in mine for unit in busy}), sorted({unit for _, rest in mine for unit in rest})


def _served_last() -> Iterator[tuple[str, str]]:
    """What the plan that served last needs, each with its engine's unit; a revision that is empty is any."""
    for plan in served.plans_of(read(served.PLACE))[-1:]:
        for need in served.needs(plan):
            yield f"{need['folder']}/{need['revision']}", f"{ENGINE}-{need['who']}" if plan.get("recipes") else ENGINE


def _running() -> Iterator[tuple[str, str]]:
    """What the arguments of processes in Tandem's containers name, and the images of these."""
    containers = {each["Id"]: each for each in docker_inspect("container", *own_containers())}
    names = {key: str(each["Name"]).lstrip("/") for key, each in containers.items()}
    for key, each in containers.items():
        yield from ((tag, names[key]) for tag in _IMAGE.findall(each["Config"]["Image"]))
    if not containers:
        return
    for process in (each for each in _PROCESSES.iterdir() if each.name.isdigit()):
        groups = read(process / "cgroup")
        for key in (key for key in containers if key in groups):
            for folder, revision in _MODEL.findall(read(process / "cmdline")):
                yield f"{folder}/{revision}", names[key]


def _models(repo: Path, users: Users) -> Iterable[OnDisk]:
    """The revisions of a repository, and what none of them has."""
    snapshots = store.snapshots(repo)
    for snapshot in snapshots:
        state = proof.main(str(repo.parent), repo.name, snapshot.name, _kind(snapshot))
        busy, units = who(users, repo.name, snapshot.name)
        whole = "" if state["problems"] else "proven" if state["proven"] else "structure"
        yield {
            "folder": repo.name,
            "revision": snapshot.name,
            "files": store.files(snapshot),
            "whole": whole,
            "problems": state["problems"],
            "brought": marks.is_brought(snapshot),
            "pinned": bool(marks.since(repo.name, snapshot.name, marks.PINNED)),
            "served": marks.since(repo.name, snapshot.name, marks.SERVED),
            "busy": [f"{unit} uses it" for unit in busy],
            "units": units,
        }
    if lost := store.left_over(repo):
        ours = [marks.is_brought(each) for each in snapshots]
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
