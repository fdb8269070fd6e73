"""Disks of machines that are kept, and given to new ones; `qemu-img` is a double."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from tests.lab.qemu import command, image, kept
from tests.lab.settings import LabNode
from tests.lab.shell import LabError, run

NODES = [LabNode(index) for index in range(2)]
KEY = Path("etc/ssh/ssh_host_ed25519_key")


@pytest.fixture
def shared(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The image's folder, and two machines that are off."""
    monkeypatch.setattr("tests.lab.settings.NODES", tmp_path / "nodes")
    monkeypatch.setattr(kept, "run", qemu_img_double)
    folder = tmp_path / "image"
    folder.mkdir()
    image.Image(folder).disk.write_text("bare")
    make(folder, "deployed")
    return folder


def qemu_img_double(*argv: str | Path) -> str:
    """`qemu-img convert` copies; all else is real."""
    if argv[0] != "qemu-img":
        return run(*argv)
    assert argv[1] == "convert" and Path(argv[argv.index("-B") + 1]).read_text() == "bare"
    shutil.copy(argv[-2], argv[-1])
    return ""


def make(folder: Path, content: str) -> None:
    for node in NODES:
        (node.root / KEY).parent.mkdir(parents=True)
        (node.root / KEY).write_text(f"key of {node.name}")
        command.disk(node).write_text(f"{content} {node.name}")
        (node.home / "image").symlink_to(folder)


def anew(folder: Path) -> list[str]:
    """Make the machines anew, with kept disks; returns what their disks hold, nothing where none are kept."""
    for node in NODES:
        shutil.rmtree(node.home)
    return [command.disk(node).read_text() for node in NODES] if kept.give(NODES, folder) else []


def test_a_new_machine_begins_with_the_disk_and_the_host_key_that_were_kept(shared: Path) -> None:
    kept.keep(NODES)
    assert anew(shared) == ["deployed spark-1", "deployed spark-2"]
    assert [(node.root / KEY).read_text() for node in NODES] == ["key of spark-1", "key of spark-2"]
    # What one writes then changes nothing of what is kept, which holds the secrets of a deploy.
    command.disk(NODES[0]).write_text("spoilt")
    assert anew(shared)[0] == "deployed spark-1" and (shared / "kept").stat().st_mode & 0o077 == 0


def test_machines_of_which_not_all_are_kept_or_more_are_begin_with_nothing(shared: Path) -> None:
    assert anew(shared) == [] and not NODES[0].home.exists()
    for kept_ones, new_ones in ((NODES[:1], NODES), (NODES, NODES[:1])):
        for each in NODES:
            shutil.rmtree(each.home, ignore_errors=True)
        make(shared, "deployed")
        kept.keep(kept_ones)
        for each in NODES:
            shutil.rmtree(each.home)
        assert not kept.give(new_ones, shared) and not NODES[0].home.exists()


def test_what_is_kept_is_replaced_whole_or_not_at_all(shared: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    kept.keep(NODES)
    command.disk(NODES[0]).write_text("newer spark-1")

    def breaks_off(*argv: str | Path) -> str:
        if str(argv[-1]).endswith("spark-2/disk.qcow2"):
            raise LabError("`qemu-img` ended with 1: no space left on device")
        return qemu_img_double(*argv)

    monkeypatch.setattr(kept, "run", breaks_off)
    with pytest.raises(LabError, match="no space left"):
        kept.keep(NODES)
    monkeypatch.setattr(kept, "run", qemu_img_double)
    assert (shared / "kept/spark-1/disk.qcow2").read_text() == "deployed spark-1"
    assert not (shared / "kept.part").exists()
    # One that was killed between its two renames.
    (shared / "kept").rename(shared / "kept.old")
    monkeypatch.setattr(kept, "run", breaks_off)
    with pytest.raises(LabError, match="no space left"):
        kept.keep(NODES)
    assert (shared / "kept/spark-1/disk.qcow2").read_text() == "deployed spark-1"
    monkeypatch.setattr(kept, "run", qemu_img_double)
    kept.keep(NODES)
    assert anew(shared) == ["newer spark-1", "deployed spark-2"]
    assert sorted(path.name for path in shared.iterdir()) == ["disk.raw", "kept"]


def test_without_room_nothing_is_kept(shared: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(shutil, "disk_usage", lambda path: shutil._ntuple_diskusage(0, 0, 0))
    with pytest.raises(LabError, match=r"image has 0.0 GiB free, and copies of these disks want \d.*: make room"):
        kept.can_keep(NODES)
