"""Copies of machines' disks with a deploy on them: new machines can begin with these."""

from __future__ import annotations

import shutil
import time
from collections.abc import Sequence
from pathlib import Path

from tests.lab.qemu import command, image
from tests.lab.settings import LabNode
from tests.lab.shell import LabError, run, say, step

#: Other nodes know a machine by its host key.
_KEYS = Path("etc/ssh")


def can_keep(nodes: Sequence[LabNode]) -> None:
    """Raises LabError where there is no room."""
    wanted = sum(command.disk(node).stat().st_blocks for node in nodes) * 512
    free = shutil.disk_usage(_image(nodes).folder).free
    # While they are copied, machines that run write as well.
    if free < 2 * wanted:
        raise LabError(
            f"{_image(nodes).folder} has {free / 2**30:.1f} GiB free, and copies of these disks want "
            f"{2 * wanted / 2**30:.1f}: make room, or do without"
        )


def keep(nodes: Sequence[LabNode]) -> None:
    """Copy the disks and host keys of machines that are off, in place of the copies of before.

    The copies lie beside the image that they need. Raises LabError; the copies of before are left then.
    """
    made = _image(nodes)
    place, aside, old = (_folder(made).with_suffix(suffix) for suffix in ("", ".part", ".old"))
    if old.exists() and not place.exists():
        # The last one broke off between two renames.
        old.rename(place)
    shutil.rmtree(aside, ignore_errors=True)
    shutil.rmtree(old, ignore_errors=True)
    # A deploy's secrets are in there.
    aside.mkdir(mode=0o700)
    try:
        with step("copies of the machines' disks"):
            for node in nodes:
                (aside / node.name).mkdir()
                over = ("-O", "qcow2", "-F", "raw", "-B", made.disk)
                run("qemu-img", "convert", *over, command.disk(node), aside / node.name / "disk.qcow2")
                shutil.copytree(node.root / _KEYS, aside / node.name / _KEYS)
    except BaseException:
        shutil.rmtree(aside, ignore_errors=True)
        raise
    if place.exists():
        place.rename(old)
    aside.rename(place)
    shutil.rmtree(old, ignore_errors=True)


def give(nodes: Sequence[LabNode], shared: Path) -> bool:
    """Let new machines begin with their copies; returns whether there are copies of these and of no others."""
    place = _folder(image.Image(shared))
    if not place.is_dir() or {each.name for each in place.iterdir()} != {node.name for node in nodes}:
        return False
    for node in nodes:
        node.root.mkdir(parents=True, exist_ok=True)
        node.home.chmod(0o700)
        shutil.copytree(place / node.name / _KEYS, node.root / _KEYS, dirs_exist_ok=True)
        aside = command.disk(node).with_suffix(".part")
        run("cp", "--sparse=always", "--reflink=auto", place / node.name / "disk.qcow2", aside)
        aside.rename(command.disk(node))
    made = (place / nodes[0].name / "disk.qcow2").stat().st_mtime
    say(f"the machines begin with the disks that were kept on {time.strftime('%Y-%m-%d %H:%M', time.localtime(made))}")
    return True


def _folder(made: image.Image) -> Path:
    return made.folder / "kept"


def _image(nodes: Sequence[LabNode]) -> image.Image:
    """The one that they boot from."""
    return image.Image((nodes[0].home / "image").readlink())
