"""Mods: what an image is changed by, once, when it is obtained. A folder in files/mods, or one by its path.

Tandem's own say in mod.yaml what they change (files/mods/apply.py does it); a folder with a run.sh, as
eugr/spark-vllm-docker has them, is run in the image.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any

import yaml
from pydantic import Field, ValidationError

from operations.plan.files import render
from operations.plan.recipe import Strict
from operations.plan.refusal import Finding, Refusal

FOLDER = Path(__file__).parents[2] / "files/mods"


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
    """mod.yaml."""

    name: str
    steps: Annotated[tuple[Install | Replace, ...], Field(min_length=1)]


def folder_of(mod: str) -> Path:
    """Where a mod lies: a path, or a name in files/mods."""
    return Path(mod) if "/" in mod else FOLDER / mod


def missing(mods: Sequence[str]) -> list[Finding]:
    """Mods that are not here, or are none."""
    return [
        Finding("recipe", f"the mod `{mod}` is not here", f"put its folder (mod.yaml, or run.sh) into {folder_of(mod)}")
        for mod in mods
        if not any((folder_of(mod) / name).is_file() for name in ("mod.yaml", "run.sh"))
    ]


def context(mods: Sequence[str], base: str) -> list[tuple[str, bytes]]:
    """Names and contents of the build that puts mods onto a base image; raises Refusal for a mod that is none."""
    own: list[str] = []
    foreign: list[str] = []
    for mod in mods:
        (own if (folder_of(mod) / "mod.yaml").is_file() else foreign).append(folder_of(mod).name)
    dockerfile = render("mods/Dockerfile.j2", base=base, own=own, foreign=foreign)
    return [("Dockerfile", dockerfile.encode()), *files(mods)]


def files(mods: Sequence[str]) -> list[tuple[str, bytes]]:
    """What an image that takes mods gets below mods/: apply.py, and each mod."""
    found = [("mods/apply.py", (FOLDER / "apply.py").read_bytes())]
    for mod in mods:
        folder = folder_of(mod)
        if (folder / "mod.yaml").is_file():
            text = json.dumps(load(folder / "mod.yaml").model_dump(mode="json"), indent=1)
            found.append((f"mods/{folder.name}/mod.json", text.encode()))
        else:
            paths = sorted(path for path in folder.rglob("*") if path.is_file())
            found += [(f"mods/{folder.name}/{path.relative_to(folder)}", path.read_bytes()) for path in paths]
    return found


def load(path: Path) -> Mod:
    """A mod.yaml; raises Refusal with every fault in it."""
    try:
        raw: Any = yaml.safe_load(path.read_text())
        return Mod.model_validate(raw)
    except yaml.YAMLError as error:
        where = " ".join(str(error).split())
        raise Refusal(Finding(str(path), f"is not YAML: {where}", "correct the line that it names")) from None
    except ValidationError as error:
        raise Refusal(
            *(Finding(str(path), f"{'.'.join(map(str, e['loc']))}: {e['msg']}", "correct it") for e in error.errors())
        ) from None
