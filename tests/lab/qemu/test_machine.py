"""A machine's life with a double of qemu: its wires are real, and in a world of their own."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from tests.lab import __main__ as verbs
from tests.lab import cgroup, desk, network, node, nspawn, rootfs, watch
from tests.lab.desk import OWN, Desk
from tests.lab.qemu import artefacts, command, image, initramfs, machine, qmp, taps, units
from tests.lab.settings import LINKS, LabNode
from tests.lab.shell import LabError
from tests.lab.world import NODES, World

#: A double may take its place.
REFUSES = nspawn.can_keep
DOUBLE = Path(__file__).with_name("qemu_double.py")
#: What a keeper does, without a control group: those are this machine's.
BOOT = "from tests.lab import settings; from tests.lab.qemu import machine; print(machine.boot(settings.LabNode({})))"
RAILS = ("rail0", "rail1")


class Machines(World):
    """Two machines on a cable, whose qemu is a double."""

    def __init__(self, home: Path) -> None:
        super().__init__(home, "cable", 2, "vm")
        made = home / "image"
        made.mkdir()
        (made / "other").mkdir()
        for name in ("disk.raw", "vmlinuz", "initramfs", "other/vmlinuz", "other/initramfs"):
            (made / name).write_text("")
        (home / "cache").mkdir()
        (home / f"cache/accelerator-{OWN}-{os.uname().release}").write_text("tcg")
        for each in NODES[:2]:
            (self.place(each) / "root").mkdir()
            (self.place(each) / "image").symlink_to(made)
        self.keepers: dict[LabNode, subprocess.Popen[str]] = {}

    def place(self, each: LabNode) -> Path:
        return self.home / "nodes" / each.name

    def power_on(self, each: LabNode) -> None:
        """Until it shows its carriers."""
        self.keepers[each] = self.begin(sys.executable, "-c", BOOT.format(each.index))
        deadline = time.monotonic() + 20
        while len(self.carriers_of(each)) < len(LINKS):
            assert time.monotonic() < deadline and self.keepers[each].poll() is None, self.keepers[each].communicate()
            time.sleep(0.02)

    def told(self, each: LabNode) -> list[tuple[str, dict[str, Any]]]:
        """The commands that its qemu got."""
        log = self.place(each) / "commands"
        return [tuple(json.loads(line)) for line in log.read_text().splitlines()] if log.exists() else []

    def carriers_of(self, each: LabNode) -> dict[str, bool]:
        """What it was shown last, by link."""
        shown = [arguments for name, arguments in self.told(each) if name == "set_link"]
        return {arguments["name"].removeprefix("wire-"): arguments["up"] for arguments in shown}

    def rails(self) -> list[list[bool]]:
        """Of both machines."""
        return [[self.carriers_of(each)[link] for link in RAILS] for each in NODES[:2]]

    def in_bridge(self, namespace: str, bridge: str) -> list[str]:
        where = ("-n", namespace) if namespace else ()
        return sorted(
            each["ifname"]
            for each in json.loads(self.run("ip", *where, "-j", "link", "show", "master", bridge))
            if each
        )


@pytest.fixture
def machines(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Machines]:
    if os.geteuid() or not Path("/dev/net/tun").exists():
        pytest.skip("taps need root and /dev/net/tun")
    for arch in command.ARCHITECTURES.values():
        program = tmp_path / "bin" / arch.program
        program.parent.mkdir(exist_ok=True)
        program.write_text(f'#!/bin/sh\nexec {sys.executable} {DOUBLE} "$@"\n')
        program.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}/bin:{os.environ['PATH']}")
    world = Machines(tmp_path / "lab")
    try:
        world.up()
        yield world
    finally:
        world.end()


def test_cables_between_machines_carry_as_those_of_hosts_do(machines: Machines) -> None:
    one, other = NODES[:2]
    machines.power_on(one)
    assert machines.carriers_of(one) == {"mgmt": True, "rail0": False, "rail1": False, "rail2": False, "rail3": False}
    machines.power_on(other)
    assert machines.rails() == [[True, True], [True, True]]
    # Both halves of a port are one L2, and the office is another.
    assert machines.in_bridge("machines-fabric", "cable-spark-1-0") == [
        *("vm1-rail0", "vm1-rail1", "vm2-rail0", "vm2-rail1")
    ]
    assert machines.in_bridge("", "machines-mgmt") == ["vm1-mgmt", "vm2-mgmt"]
    machines.lab("cut", "spark-1:rail0")
    assert machines.rails() == [[False, True], [False, True]]
    machines.lab("heal", "spark-2:rail0")
    assert machines.rails() == [[True, True], [True, True]]
    # A netdev that goes.
    machines.lab("take", "spark-2:rail0")
    assert ("device_del", {"id": "rail0"}) in machines.told(other) and machines.rails()[0] == [False, True]
    machines.lab("give", "spark-2:rail0")
    (added,) = [arguments for name, arguments in machines.told(other) if name == "device_add"]
    assert added["mac"] == "52:54:00:5a:02:01" and machines.rails()[0] == [True, True]
    # A machine that stands still has its carriers.
    machines.lab("freeze", "spark-2")
    machines.lab("thaw", "spark-2")
    assert [name for name, _ in machines.told(other) if name in ("stop", "cont")] == ["stop", "cont"]
    assert machines.rails()[0] == [True, True]


@pytest.mark.parametrize(("reason", "again"), [("guest-reset", "True"), ("guest-shutdown", "False")])
def test_a_machine_that_ends_takes_its_wires_and_its_neighbour_s_carriers(
    machines: Machines, reason: str, again: str
) -> None:
    one, other = NODES[:2]
    for each in (one, other):
        machines.power_on(each)
    monitor = machines.place(other) / "monitor"
    with qmp.connected(monitor) as talk, suppress(qmp.Silent):
        talk.do("quit", reason=reason)
    said, complaint = machines.keepers[other].communicate(timeout=20)
    assert said.strip() == again and ("is off" in complaint) == (again == "False")
    assert machines.rails()[0] == [False, False] and machines.carriers_of(one)["mgmt"]
    assert machines.in_bridge("machines-fabric", "cable-spark-1-0") == ["vm1-rail0", "vm1-rail1"]
    with pytest.raises(AssertionError, match=r"no qemu answers at .*/spark-2/monitor: .*; its machine is off"):
        machines.lab("freeze", "spark-2")


def test_a_machine_boots_the_kernel_that_was_chosen_for_it(machines: Machines) -> None:
    machines.lab("kernel", "all", "other")
    machines.lab("kernel", "spark-1", "own")
    for each, kernel in zip(NODES[:2], ("vmlinuz", "other/vmlinuz"), strict=True):
        machines.power_on(each)
        argv = json.loads((machines.place(each) / "argv").read_text())
        assert argv[argv.index("-kernel") + 1] == str(machines.home / "image" / kernel)


def test_a_qemu_that_ends_at_once_is_no_reboot(machines: Machines, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("QEMU_DOUBLE_SAYS", "qemu-system: no such board")
    said, complaint = machines.begin(sys.executable, "-c", BOOT.format(0)).communicate(timeout=20)
    assert "no such board" in said and said.strip().endswith("False")
    assert "spark-1 is off (qemu ended with 0)" in complaint


def test_the_watcher_of_the_other_lab_is_left_alone(machines: Machines) -> None:
    """`up` and `down` of machines neither start one nor end one: both labs may be up."""
    assert machines.watchers() == []
    argv = [sys.executable, "-c", "import sys, time; time.sleep(60)", "-m", "tests.lab.watch"]
    theirs = machines.begin(*argv)
    deadline = time.monotonic() + 10
    while not machines.watchers():
        assert time.monotonic() < deadline
    machines.up()
    machines.python("from tests.lab import watch; watch.end()")
    assert len(machines.watchers()) == 1 and theirs.poll() is None


def test_what_qemu_refuses_is_said_in_its_words(machines: Machines) -> None:
    machines.power_on(NODES[0])
    with qmp.connected(machines.place(NODES[0]) / "monitor") as talk:
        with pytest.raises(LabError, match="qemu refuses nonsense: The command nonsense has not been found"):
            talk.do("nonsense")
        # And the conversation goes on.
        assert [each["name"] for each in talk.do("qom-list", path="/")] == ["type", *LINKS]


DESK = Desk(system="debian13", machines="vm")


def test_without_qemu_or_taps_nothing_is_begun(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(image, "CACHE", tmp_path)
    monkeypatch.setattr(shutil, "which", lambda name: None)
    program = command.ARCHITECTURES[OWN].program
    with pytest.raises(LabError, match=f"^`{program}` is not installed; `MACHINES=vm make lab-packages` installs"):
        machine.prepare(DESK, 2)
    monkeypatch.undo()
    monkeypatch.setattr(image, "CACHE", tmp_path)
    monkeypatch.setattr(shutil, "which", lambda name: name)
    monkeypatch.setattr(taps, "TUN", tmp_path / "tun")
    with pytest.raises(LabError, match=r"^.*/tun is not there; a machine's network needs it \(modprobe tun\)$"):
        machine.prepare(DESK, 2)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("free", "available", "is_made", "said"),
    [
        (19.0, 12.0, False, "has 19.0 GiB free, and 2 machines .* may write 20: make room, or set TANDEM_LAB_DIR"),
        (9.9, 12.0, True, "has 9.9 GiB free, and 2 machines .* may write 10: make room"),
        (20.0, 9.5, True, "2 machines want 10 GiB of memory, and 9.5 are available: fewer NODES"),
        (10.0, 10.0, True, ""),
    ],
)
def test_without_room_on_the_disk_or_in_memory_nothing_is_begun(
    free: float, available: float, is_made: bool, said: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(machine, "HOME", tmp_path)
    monkeypatch.setattr(shutil, "disk_usage", lambda path: shutil._ntuple_diskusage(0, 0, int(free * 2**30)))
    monkeypatch.setattr(machine, "_available_gib", lambda: available)
    if not said:
        machine.refuse_too_many(DESK, 2, is_made=is_made)
        return
    with pytest.raises(LabError, match=said):
        machine.refuse_too_many(DESK, 2, is_made=is_made)


def test_an_image_that_breaks_off_leaves_none(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(image, "CACHE", tmp_path)
    monkeypatch.setattr(rootfs, "CACHE", tmp_path)
    root = rootfs.machine_root(DESK).place
    (root / "boot").mkdir(parents=True)
    for release in ("6.12", "6.12-cloud-arm64"):
        (root / f"boot/vmlinuz-{release}").write_text(f"kernel {release}")
    monkeypatch.setattr(initramfs, "base", lambda root, release: f"first {release}".encode())

    def no_room(*argv: str | Path) -> str:
        raise LabError("`mke2fs` ended with 1: no space left on device")

    monkeypatch.setattr(image, "run", no_room)
    with pytest.raises(LabError, match="no space left"):
        image.ensure(DESK)
    assert not image.place(DESK).folder.exists()
    monkeypatch.setattr(image, "run", lambda *argv: "")
    made = image.ensure(DESK)
    for each, release in ((made, "6.12"), (made.other, "6.12-cloud-arm64")):
        assert each.kernel.read_text() == f"kernel {release}" and each.initramfs.read_text() == f"first {release}"
    assert sorted(tmp_path.iterdir()) == sorted([root, made.folder])


def test_the_disk_to_deploy_from_is_made_anew_when_something_has_come_or_gone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    images = tmp_path / "artefacts"
    (images / "hub").mkdir(parents=True)
    monkeypatch.setattr(artefacts, "ARTEFACTS", images)
    monkeypatch.setattr(artefacts, "DISK", tmp_path / "artefacts.ext4")
    assert not artefacts.is_whole()

    def make() -> None:
        artefacts.DISK.write_text("disk")
        later = time.time() + 1
        os.utime(artefacts.DISK, (later, later))
        assert artefacts.is_whole()

    def pass_on(path: Path) -> None:
        """What is written now is newer than the disk."""
        later = time.time() + 2
        os.utime(path, (later, later))

    make()
    (images / "hub/model").write_text("model")
    pass_on(images / "hub/model")
    assert not artefacts.is_whole()
    (images / "hub/model").unlink()
    make()
    pass_on(images / "hub")
    assert not artefacts.is_whole()


def test_the_head_mounts_what_it_deploys_from_and_only_an_emulated_canary_is_patient(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tests.lab.settings.NODES", tmp_path)
    head, other = NODES[:2]
    units.write(head, is_emulated=False)
    units.write(other, is_emulated=True)
    assert (head.root / "etc/fstab").read_text() == "LABEL=artefacts /srv/tandem-lab ext4 ro,nofail 0 0\n"
    assert not (other.root / "etc/fstab").exists()
    drop_in = "etc/systemd/system/tandem-canary.service.d/emulated.conf"
    assert not (head.root / drop_in).exists()
    place = (other.root / drop_in).read_text().strip().partition("PYTHONPATH=/")[2]
    assert "/etc/tandem/canary" in (other.root / place / "sitecustomize.py").read_text()


def test_a_machine_whose_image_is_another_is_made_anew(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tests.lab.settings.NODES", tmp_path)
    here = LabNode(0)
    here.home.mkdir()
    assert not machine.is_whole(here, tmp_path / "new")
    (here.home / "image").symlink_to(tmp_path / "old")
    assert not machine.is_whole(here, tmp_path / "new") and machine.is_whole(here, tmp_path / "old")


@pytest.mark.parametrize("new", [NODES[:2], NODES[1:2], []])
def test_when_one_machine_does_not_come_up_none_is_left_running_and_no_new_one_is_left(
    new: list[LabNode], monkeypatch: pytest.MonkeyPatch
) -> None:
    off: list[LabNode] = []
    gone: list[LabNode] = []
    torn: list[list[LabNode]] = []

    def wait(each: LabNode) -> float:
        if each == NODES[1]:
            raise LabError(f"{each.name} did not come up in 900 s; its console is {each.console}")
        return 1.0

    monkeypatch.setattr(node, "wait_until_up", wait)
    monkeypatch.setattr(node, "power_off", off.append)
    monkeypatch.setattr(node, "remove", gone.append)
    monkeypatch.setattr(verbs, "_tear_down", torn.append)
    with pytest.raises(LabError, match=r"spark-2 did not come up in 900 s; its console is .*/consoles/spark-2.log"):
        verbs.wait_for(NODES[:2], new)
    rest = [each for each in NODES[:2] if each not in new]
    assert (off, gone, torn) == (rest, new, [] if rest else [new])


class Kept:
    """Two machines that go off when they are told to, of which one may not."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, stays: str = "") -> None:
        self.on, self.stays = {each.name for each in NODES[:2]}, stays
        self.done: list[str] = []
        monkeypatch.setattr(verbs, "known_nodes", lambda: NODES[:2])
        monkeypatch.setattr(verbs, "run", lambda *argv, check: self.off(argv[-2]))
        monkeypatch.setattr(node.HOSTS, "BOOT_S", 0.0)
        monkeypatch.setattr(node, "ssh_argv", lambda each: [each.name])
        monkeypatch.setattr(cgroup, "is_running", lambda each: each.name in self.on)
        monkeypatch.setattr(node, "power_on", lambda each: self.on.add(each.name))
        monkeypatch.setattr(node, "wait_until_up", lambda each: self.done.append(f"{each.name} is up"))
        monkeypatch.setattr(node.HOSTS, "keep", lambda nodes: self.done.append(f"kept with {len(self.on)} on"))
        monkeypatch.setattr(node.HOSTS, "can_keep", lambda nodes: None)

    def off(self, name: str) -> str:
        self.on -= {name} - {self.stays}
        return ""


def test_machines_are_kept_when_all_are_off_and_booted_again(monkeypatch: pytest.MonkeyPatch) -> None:
    kept = Kept(monkeypatch)
    verbs.keep()
    assert kept.done == ["kept with 0 on", "spark-1 is up", "spark-2 is up"] and len(kept.on) == 2


def test_when_one_does_not_go_off_none_is_kept_and_all_are_booted_again(monkeypatch: pytest.MonkeyPatch) -> None:
    kept = Kept(monkeypatch, stays="spark-2")
    with pytest.raises(LabError, match=r"^spark-2 is not off after 0 s; its console is "):
        verbs.keep()
    assert kept.done == ["spark-1 is up", "spark-2 is up"]


def test_what_can_t_be_kept_is_not_shut_down(monkeypatch: pytest.MonkeyPatch) -> None:
    kept = Kept(monkeypatch)
    monkeypatch.setattr(node.HOSTS, "can_keep", REFUSES)
    with pytest.raises(LabError, match=r"^disks of hosts in namespaces are not kept: MACHINES=vm keeps them$"):
        verbs.keep()
    assert not kept.done and len(kept.on) == 2


@pytest.mark.parametrize(
    ("there", "gives", "said"),
    [
        ([], True, ""),
        ([], False, r"no disks are kept of 2 nodes of debian13 \(\w+\) with networkd: they begin bare"),
        (NODES[:1], True, "nodes that are there already keep their disks, and new ones begin bare"),
    ],
)
def test_kept_disks_are_for_nodes_that_are_all_new(
    there: list[LabNode], gives: bool, said: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MACHINES", "vm")
    monkeypatch.setenv("DISKS", "kept")
    told: list[str] = []
    asked: list[list[LabNode]] = []

    def give(nodes: list[LabNode], shared: Path) -> bool:
        asked.append(nodes)
        return gives

    monkeypatch.setattr(verbs, "HOME", tmp_path)
    monkeypatch.setattr(verbs, "SSH_KEY", tmp_path)
    monkeypatch.setattr(verbs, "known_nodes", lambda: there)
    monkeypatch.setattr(verbs, "say", told.append)
    monkeypatch.setattr(verbs, "_remove_others", lambda nodes, wanted, shared: None)
    for module, names in (
        (desk, ["remember"]),
        (node.HOSTS, ["prepare"]),
        (node, ["make", "write_known_hosts"]),
        (network, ["wire_up"]),
        (watch, ["start"]),
    ):
        for name in names:
            monkeypatch.setattr(module, name, lambda *_: tmp_path)
    monkeypatch.setattr(node.HOSTS, "give", give)
    monkeypatch.setattr(cgroup, "is_running", lambda each: True)
    verbs.up(2)
    assert asked == ([] if there else [NODES[:2]])
    assert len(told) == (2 if said else 1) and re.fullmatch(said, told[0] if said else "")


def test_machines_that_are_off_are_not_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    kept = Kept(monkeypatch)
    kept.on = {"spark-1"}
    with pytest.raises(LabError, match=r"^spark-2 is off: all are kept or none; `python -m tests.lab up` boots them$"):
        verbs.keep()
    monkeypatch.setattr(verbs, "known_nodes", list)
    with pytest.raises(LabError, match=r"^every node is off: "):
        verbs.keep()
    assert not kept.done


def test_a_machine_that_went_off_is_not_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(node, "run", lambda *argv, check: "")
    monkeypatch.setattr(node, "_STARTED_S", 0.0)
    monkeypatch.setattr(cgroup, "is_running", lambda each: False)
    with pytest.raises(LabError, match="spark-1 went off while it booted; its console is"):
        node.wait_until_up(NODES[0])


def test_a_machine_that_gets_no_processor_is_killed_before_anything_is_asked(monkeypatch: pytest.MonkeyPatch) -> None:
    """An answer of its qemu may take minutes then."""
    done: list[str] = []
    monkeypatch.setattr(network, "settle", lambda: done.append("asked"))
    monkeypatch.setattr(cgroup, "kill", lambda each: done.append("killed"))
    monkeypatch.setattr(network, "WIRES", taps)
    node.power_off(NODES[0])
    assert done == ["killed", "asked"]
