"""Images of another architecture than this machine's."""

from __future__ import annotations

import io
import tarfile
from pathlib import Path

import pytest

from operations.node.image import archive
from tests.lab import images, rootfs
from tests.lab.desk import ARCHITECTURES, OWN, cpu

OTHER = next(arch for arch in ARCHITECTURES.values() if arch != OWN)


@pytest.mark.parametrize("arch", [OWN, OTHER])
def test_a_base_is_of_its_architecture(arch: str, tmp_path: Path) -> None:
    base, made = tmp_path / "root.tar", tmp_path / "root.image"
    with tarfile.open(base, "w") as root:
        root.addfile(tarfile.TarInfo("etc/hostname"), io.BytesIO())
    images.write_base(made, base, "tandem-lab/base:1", arch)
    assert archive.problem(str(made), "tandem-lab/base:1", cpu(arch)) == ""
    assert f"is for {arch}, this node is" in archive.problem(str(made), "tandem-lab/base:1", "riscv64")


def test_each_architecture_has_an_archive_of_its_own() -> None:
    assert images.PROXY.on(OWN).archive == images.PROXY.archive != images.PROXY.on(OTHER).archive
    assert images.PROXY.on(OTHER).tag == images.PROXY.tag


def test_only_another_architecture_s_programs_are_emulated() -> None:
    argv = ["docker", "build"]
    assert rootfs.emulating(OWN, argv) == argv
    *shell, last, word = rootfs.emulating(OTHER, argv)
    assert [last, word] == argv and f"update-binfmts --enable qemu-{cpu(OTHER)} && " in str(shell)
