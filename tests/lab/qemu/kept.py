"""Disks of machines that are deployed, kept beside the image that they lie over, for machines to begin with."""

from __future__ import annotations

import shutil
import time
from collections.abc import Sequence
from pathlib import Path

from tests.lab.qemu import command, image
from tests.lab.settings import LabNode
from tests.lab.shell import LabError, run, say, step

#: What a machine's own files must have again: by its host key others know it.
_KEYS = Path("etc/ssh")


def keep(nodes: Sequence[LabNode]) -> None:
    """Copy the disks and host keys of machines that are off, in place of those that were kept before.

    Raises LabError where there is no room.
    """
    made = image.Image((nodes[0].home / "image").readlink())
    aside, old = _folder(made).with_suffix(".part"), _folder(made).with_suffix(".old")
    for each in (aside, old):
        shutil.rmtree(each, ignore_errors=True)
    wanted = sum(command.disk(node).stat().st_blocks for node in nodes) * 512
    free = shutil.disk_usage(made.folder).free
    if free < wanted:
        raise LabError(f"{made.folder} has {free / 2**30:.1f} GiB free, and the disks take {wanted / 2**30:.1f}")
    aside.mkdir(mode=0o700)
    with step("copies of the machines' disks"):
        for node in nodes:
            (aside / node.name).mkdir()
            over = ("-O", "qcow2", "-F", "raw", "-B", made.disk)
            run("qemu-img", "convert", *over, command.disk(node), aside / node.name / "disk.qcow2")
            shutil.copytree(node.root / _KEYS, aside / node.name / _KEYS)
    if _folder(made).exists():
        _folder(made).rename(old)
    aside.rename(_folder(made))
    shutil.rmtree(old, ignore_errors=True)


def give(node: LabNode, shared: Path) -> bool:
    """Let a new machine begin with what was kept of it; returns whether anything was."""
    kept = _folder(image.Image(shared)) / node.name
    if not kept.is_dir():
        return False
    node.root.mkdir(parents=True, exist_ok=True)
    shutil.copytree(kept / _KEYS, node.root / _KEYS, dirs_exist_ok=True)
    aside = command.disk(node).with_suffix(".part")
    # The copy in one go, with its holes: nothing else is on them.
    run("cp", "--sparse=always", "--reflink=auto", kept / "disk.qcow2", aside)
    aside.rename(command.disk(node))
    day = time.strftime("%Y-%m-%d %H:%M", time.localtime((kept / "disk.qcow2").stat().st_mtime))
    say(f"{node.name} begins with its disk of {day}")
    return True


def _folder(made: image.Image) -> Path:
    return made.folder / "kept"
