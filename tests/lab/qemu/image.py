"""What machines boot from: a disk, a kernel and a first file system. Made once, kept by what they consist of."""

from __future__ import annotations

import hashlib
import shutil
from pathlib import Path
from typing import NamedTuple

from tests.lab import rootfs
from tests.lab.desk import Desk
from tests.lab.qemu import cpio, initramfs
from tests.lab.settings import CACHE
from tests.lab.shell import LabError, run, step

#: A file system of this size, of which the file holds what is written.
SIZE = "24G"


class Image(NamedTuple):
    """The folder of one."""

    folder: Path

    @property
    def disk(self) -> Path:
        return self.folder / "disk.raw"

    @property
    def kernel(self) -> Path:
        return self.folder / "vmlinuz"

    @property
    def initramfs(self) -> Path:
        return self.folder / "initramfs"

    @property
    def other(self) -> Image:
        """Another kernel for the same disk."""
        return Image(self.folder / "other")


def ensure(desk: Desk) -> Image:
    """The image for a kind of machines."""
    if (kept := place(desk)).folder.is_dir():
        return kept
    root = rootfs.machine_root(desk).ensure()
    aside = Image(kept.folder.with_suffix(".part"))
    shutil.rmtree(aside.folder, ignore_errors=True)
    aside.other.folder.mkdir(parents=True)
    with step(f"a disk for the machines ({desk.arch})"):
        for kernel in (root / "boot").glob("vmlinuz-*"):
            release = kernel.name.removeprefix("vmlinuz-")
            to = aside.other if "-cloud-" in release else aside
            shutil.copy(kernel, to.kernel)
            to.initramfs.write_bytes(initramfs.base(root, release))
        for each in (aside, aside.other):
            if not each.kernel.exists():
                raise LabError(f"{root}/boot lacks a kernel: expected one for hardware and one for clouds")
        write_disk(aside.disk, root)
        aside.folder.rename(kept.folder)
    return kept


def write_disk(disk: Path, content: Path, label: str = "") -> None:
    """A file system with what a folder has, as a file."""
    made = ("mke2fs", "-q", "-t", "ext4", "-m", "0", "-L", label, "-E", "lazy_itable_init=1,nodiscard", "-d", content)
    run(*made, disk, SIZE)


def place(desk: Desk) -> Image:
    """Where it is, or would be."""
    made_by = "".join(Path(module.__file__ or "").read_text() for module in (cpio, initramfs))
    recipe = f"{rootfs.machine_root(desk).place.name} {SIZE} {initramfs.INIT.read_text()} {made_by}"
    return Image(CACHE / f"machine-{hashlib.sha256(recipe.encode()).hexdigest()[:12]}")
