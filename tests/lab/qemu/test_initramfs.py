"""A machine's first file system, as the kernel would unpack it."""

from __future__ import annotations

import lzma
import os
import re
import stat
from pathlib import Path

import pytest

from tests.lab.qemu import cpio, initramfs
from tests.lab.shell import LabError

KERNEL = "6.12.1-arm64"


def unpacked(packed: bytes) -> dict[str, tuple[int, bytes]]:
    """Mode and content by path, of all archives in it."""
    found: dict[str, tuple[int, bytes]] = {}
    at = 0
    while at < len(packed):
        if not packed[at]:
            at += 1
            continue
        assert packed[at : at + 6] == b"070701" and at % 4 == 0
        fields = [int(packed[start : start + 8], 16) for start in range(at + 6, at + 110, 8)]
        mode, size, length = fields[1], fields[6], fields[11]
        name = packed[at + 110 : at + 110 + length - 1].decode()
        begin = at + 110 + length + -(110 + length) % 4
        at = begin + size + -size % 4
        if name != "TRAILER!!!":
            found[name] = (mode, packed[begin : begin + size])
    return found


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """What of a Debian is looked at."""
    modules = tmp_path / "usr/lib/modules" / KERNEL
    for name in (
        "block/virtio_blk.ko.xz",
        "fs/ext4.ko.xz",
        "fs/mbcache.ko.xz",
        "lib/crc16.ko",
        "crypto/crc32c_generic.ko",
    ):
        (modules / name).parent.mkdir(parents=True, exist_ok=True)
        content = f"module {name}".encode()
        (modules / name).write_bytes(lzma.compress(content) if name.endswith(".xz") else content)
    needs = "fs/ext4.ko.xz: fs/mbcache.ko.xz lib/crc16.ko\nfs/mbcache.ko.xz: lib/crc16.ko\nblock/virtio_blk.ko.xz:\n"
    (modules / "modules.dep").write_text(f"{needs}crypto/crc32c_generic.ko:\n")
    (modules / "modules.builtin").write_text("kernel/drivers/virtio/virtio_pci.ko\n")
    (tmp_path / "usr/bin").mkdir()
    (tmp_path / "usr/bin/busybox").write_bytes(b"\x7fELF busybox")
    return tmp_path


def test_each_module_comes_after_those_it_needs_and_the_kernel_s_own_are_left_out(root: Path) -> None:
    names = [path.name for path in initramfs.modules_of(root, KERNEL)]
    assert names == ["virtio_blk.ko.xz", "crc32c_generic.ko", "crc16.ko", "mbcache.ko.xz", "ext4.ko.xz"]
    found = unpacked(initramfs.base(root, KERNEL))
    order = "virtio_blk.ko\ncrc32c_generic.ko\ncrc16.ko\nmbcache.ko\next4.ko\n"
    assert found["modules/order"][1].decode() == order
    assert found["modules/ext4.ko"][1] == b"module fs/ext4.ko.xz"
    assert found["init"] == (stat.S_IFREG | 0o755, initramfs.INIT.read_bytes())
    assert stat.S_ISDIR(found["proc"][0]) and found["bin/busybox"][0] == stat.S_IFREG | 0o755


def test_a_kernel_without_a_module_is_named(root: Path) -> None:
    (root / f"usr/lib/modules/{KERNEL}/modules.builtin").write_text("")
    with pytest.raises(LabError, match=f"the kernel {KERNEL} in .* has no module virtio_pci"):
        initramfs.modules_of(root, KERNEL)


def test_a_node_s_files_come_with_their_modes_and_another_digest_for_other_files(tmp_path: Path) -> None:
    (tmp_path / "etc/units.wants").mkdir(parents=True)
    (tmp_path / "etc/key").write_text("secret")
    (tmp_path / "etc/key").chmod(0o600)
    (tmp_path / "etc/units.wants/one").symlink_to("../one")
    packed = initramfs.overlay(tmp_path)
    found = unpacked(packed)
    assert found["overlay/etc/key"] == (stat.S_IFREG | 0o600, b"secret")
    assert (
        stat.S_ISLNK(found["overlay/etc/units.wants/one"][0]) and found["overlay/etc/units.wants/one"][1] == b"../one"
    )
    assert len(found["overlay.digest"][1]) == 64
    assert initramfs.overlay(tmp_path) == packed
    (tmp_path / "etc/key").write_text("changed")
    assert unpacked(initramfs.overlay(tmp_path))["overlay.digest"] != found["overlay.digest"]


def test_two_archives_in_one_file_are_both_found_and_an_owner_is_kept(tmp_path: Path) -> None:
    first = cpio.archive([cpio.entry("a", stat.S_IFREG | 0o644, b"one")])
    both = first + cpio.archive([cpio.entry("b", stat.S_IFREG | 0o644, b"two", owner=1000)])
    assert len(first) % 512 == 0
    assert {name: content for name, (_, content) in unpacked(both).items()} == {"a": b"one", "b": b"two"}
    # Fields 3 and 4: user and group.
    assert re.search(rb"070701.{16}000003E8000003E8", both)
    (tmp_path / "mine").write_text("x")
    (mine,) = [each for each in cpio.tree(tmp_path, "o") if b"o/mine" in each]
    assert mine[22:30] == b"%08X" % os.getuid()
