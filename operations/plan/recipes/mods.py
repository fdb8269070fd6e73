"""Mods: what an image is changed by, once, when it is obtained. A folder in files/mods, or one by its path.

Tandem's own say in mod.yaml what they change (files/mods/apply.py does it); a folder with a run.sh, as
eugr/spark-vllm-docker has them, is run in the image, or at each start where it acts on what runs (mod_acts.py).
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Literal

from pydantic import Field, ValidationError, model_validator

from operations.plan.config.files import render
from operations.plan.config.refusal import Finding, Refusal, Remark
from operations.plan.recipes import loader
from operations.plan.recipes.mod_acts import Acts, acts
from operations.plan.recipes.mod_folder import content, faults, is_mod
from operations.plan.recipes.recipe import Strict

FOLDER = Path(__file__).parents[3] / "files/mods"


class Upstream(Strict):
    """A text in a file that says that a step is not needed there."""

    file: str
    text: str


class Install(Strict):
    """A package, by its hashes, unless this version or a later one is there."""

    name: str
    package: str
    version: str
    sha256: Annotated[tuple[str, ...], Field(min_length=1)]


class Replace(Strict):
    """A text that stands once in a file, and what shall stand there. `line`: where it stood in the file meant."""

    name: str
    file: str
    line: int
    old: Annotated[str, Field(min_length=1)]
    new: str
    upstream: tuple[Upstream, ...] = ()


class Mod(Strict):
    """mod.yaml: what is changed, or when the run.sh beside it is run, where that is not to be told from its text."""

    name: str
    steps: tuple[Install | Replace, ...] = ()
    run: Literal["build", "start"] | None = None

    @model_validator(mode="after")
    def _one(self) -> Mod:
        if bool(self.steps) == bool(self.run):
            raise ValueError("it has `steps`, or `run: build` or `run: start` for a run.sh beside it")
        return self


@dataclass(frozen=True)
class Settled:
    """The mods of a recipe by when they act. `mods`: what goes into the image; `starts`: the names of those among them
    that are run at each start; `drop_caches_s`: seconds between two times that the node drops its page cache; 0: never.
    """

    mods: tuple[str, ...]
    starts: tuple[str, ...] = ()
    drop_caches_s: int = 0
    remarks: tuple[Remark, ...] = ()


def settle(mods: Sequence[str], names: Iterable[str] = ()) -> Settled:
    """When each mod acts; `names`: the variables that the recipe sets. One that is not here stays as it is named."""
    kept, starts, pauses, remarks = [], [], [], []
    for mod in dict.fromkeys(mods):
        name = folder_of(mod).name
        try:
            acts = _acts(folder_of(mod), names)
        except (OSError, ValueError, Refusal) as error:
            # What stands in the way of it is a finding.
            acts = Acts("build", f"unknown: {type(error).__name__}")
        if acts.when == "refused":
            remarks.append(Remark(True, f"the mod `{name}` can't act here: {acts.sign}", "take it out of `mods`"))
        elif acts.when == "node":
            pauses.append(acts.every_s)
            does = f"the node does it every {acts.every_s} s while the engine runs"
            remarks.append(Remark(False, f"the mod `{name}` acts on the node's kernel: {acts.sign}", does))
            continue
        elif acts.when == "start":
            starts.append(name)
            remarks.append(Remark(False, f"the mod `{name}` is run at each start: {acts.sign}", "before the engine"))
        kept.append(mod)
    return Settled(tuple(kept), tuple(starts), min(pauses, default=0), tuple(remarks))


def folder_of(mod: str) -> Path:
    """Where a mod lies: a path, or a name in files/mods."""
    return Path(mod) if "/" in mod else FOLDER / mod


def findings(mods: Sequence[str]) -> list[Finding]:
    """Mods that are not here, or can't be put into an image; a line for each fault."""
    found = []
    places: dict[str, Path] = {}
    for mod in mods:
        folder = folder_of(mod)
        if not is_mod(folder):
            remedy = f"put its folder (mod.yaml, or run.sh) into {folder}"
            found.append(Finding("recipe", f"the mod `{mod}` is not here", remedy))
            continue
        found += [Finding("recipe", f"the mod `{mod}`: {problem}", remedy) for problem, remedy in faults(folder)]
        try:
            if _runs(mod) and not (folder / "run.sh").is_file():
                found.append(Finding("recipe", f"the mod `{mod}` has no run.sh", "put one beside its mod.yaml"))
        except Refusal as refusal:
            found += refusal.findings
        other = places.setdefault(folder.name, folder)
        if other.resolve() != folder.resolve():
            problem = f"two mods have the name `{folder.name}`: {other} and {folder}"
            found.append(Finding("recipe", problem, "rename the folder of one of them"))
    return found


def remarks(mods: Sequence[str]) -> list[Remark]:
    """The findings, for who lists recipes."""
    return [Remark(True, each.problem, each.remedy) for each in findings(mods)]


def context(mods: Sequence[str], base: str, starts: Sequence[str] = ()) -> list[tuple[str, bytes]]:
    """Names and contents of the build that puts mods onto a base image; raises Refusal for a mod that is none."""
    steps = [(folder_of(mod).name, _runs(mod), folder_of(mod).name in starts) for mod in mods]
    dockerfile = render("mods/Dockerfile.j2", base=base, mods=steps)
    return [("Dockerfile", dockerfile.encode()), *files(mods)]


def files(mods: Sequence[str]) -> list[tuple[str, bytes]]:
    """What an image that takes mods gets below mods/: apply.py, and each mod."""
    found = [("mods/apply.py", (FOLDER / "apply.py").read_bytes())]
    for mod in mods:
        folder = folder_of(mod)
        if _runs(mod):
            found += [(f"mods/{folder.name}/{name}", text) for name, text in content(folder)]
        else:
            text = json.dumps(load(folder / "mod.yaml").model_dump(mode="json", exclude={"run"}), indent=1)
            found.append((f"mods/{folder.name}/mod.json", text.encode()))
    return found


def _runs(mod: str) -> bool:
    """Whether it is a run.sh; else it is steps."""
    return _declared(folder_of(mod)) is not None


def _declared(folder: Path) -> Literal["build", "start", ""] | None:
    """When its mod.yaml says that the run.sh is run; empty: it does not say; None: there is none to run."""
    if not (folder / "mod.yaml").is_file():
        return ""
    return load(folder / "mod.yaml").run


def _acts(folder: Path, names: Iterable[str]) -> Acts:
    declared = _declared(folder)
    if declared == "":
        return acts(folder, names)
    return Acts("start", "its mod.yaml says so") if declared == "start" else Acts("build")


def load(path: Path) -> Mod:
    """A mod.yaml; raises Refusal with every fault in it."""
    try:
        return Mod.model_validate(loader.content(path)[0])
    except ValidationError as error:
        raise Refusal(
            *(Finding(str(path), f"{'.'.join(map(str, e['loc']))}: {e['msg']}", "correct it") for e in error.errors())
        ) from None
