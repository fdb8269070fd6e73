"""A machine's first file system: busybox, the disk's modules and `init.sh`; behind it the node's own files.

Debian's initramfs-tools would make one in many minutes where the machine's architecture is emulated.
"""

from __future__ import annotations

import hashlib
import lzma
import stat
from pathlib import Path

from tests.lab.qemu import cpio
from tests.lab.shell import LabError

INIT = Path(__file__).with_name("init.sh")
#: What the root file system is on, and what it is; the list of what ext4 needs leaves its checksum out.
MODULES = ("virtio_pci", "virtio_blk", "crc32c_generic", "ext4")


def base(root: Path, release: str) -> bytes:
    """The part that all machines of a root have; `root` has busybox-static and the modules of a kernel's `release`."""
    entries = [cpio.entry(name, stat.S_IFDIR | 0o755) for name in ("bin", "dev", "proc", "sys", "root", "modules")]
    entries.append(cpio.entry("bin/busybox", stat.S_IFREG | 0o755, (root / "usr/bin/busybox").read_bytes()))
    entries.append(cpio.entry("init", stat.S_IFREG | 0o755, INIT.read_bytes()))
    modules = modules_of(root, release)
    for path in modules:
        content = path.read_bytes()
        plain = lzma.decompress(content) if path.suffix == ".xz" else content
        entries.append(cpio.entry(f"modules/{path.name.removesuffix('.xz')}", stat.S_IFREG | 0o644, plain))
    order = "".join(f"{path.name.removesuffix('.xz')}\n" for path in modules)
    entries.append(cpio.entry("modules/order", stat.S_IFREG | 0o644, order.encode()))
    return cpio.archive(entries)


def overlay(folder: Path) -> bytes:
    """The part that one node has: its files, laid over its disk at the first boot that finds them changed."""
    files = list(cpio.tree(folder, "overlay"))
    digest = hashlib.sha256(b"".join(files)).hexdigest()
    return cpio.archive([*files, cpio.entry("overlay.digest", stat.S_IFREG | 0o644, digest.encode())])


def modules_of(root: Path, release: str) -> list[Path]:
    """The files of MODULES, each after those that it needs; what the kernel has built in is left out.

    Raises LabError where the kernel has one of them in no way.
    """
    folder = root / "usr/lib/modules" / release
    needs: dict[str, list[str]] = {}
    for line in (folder / "modules.dep").read_text().splitlines():
        path, _, others = line.partition(":")
        needs[path] = others.split()
    by_name = {_name(path): path for path in needs}
    built_in = {_name(path) for path in (folder / "modules.builtin").read_text().split()}
    found: list[str] = []
    for module in MODULES:
        if module in built_in:
            continue
        if module not in by_name:
            raise LabError(f"the kernel {release} in {root} has no module {module}")
        path = by_name[module]
        # The kernel's list names first what is to be loaded last.
        found += [each for each in [*reversed(needs[path]), path] if each not in found]
    return [folder / path for path in found]


def _name(path: str) -> str:
    return Path(path).name.split(".")[0].replace("-", "_")
