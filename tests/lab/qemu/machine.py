"""A node that is a virtual machine: its disk, its files, its life under qemu."""

from __future__ import annotations

import os
import shutil
import subprocess
import time
from contextlib import ExitStack
from pathlib import Path

from tests.lab import cgroup, network
from tests.lab.cables import Port
from tests.lab.desk import Desk, remembered
from tests.lab.qemu import accelerator, artefacts, command, image, initramfs, kept, qmp, taps, units
from tests.lab.settings import HOME, KNOWN_HOSTS, LINKS, LOGIN, SSH_KEY, LabNode
from tests.lab.shell import LabError, run, say

#: An emulated one boots in a minute on a core of its own, and in many where others want the cores.
BOOT_S = 900.0
LOGIN_S = 120
BOOT_ID = "cat /proc/sys/kernel/random/boot_id"
HAS_UDEV = True
#: The first login of a Debian, which is LOGIN's.
_LOGIN_ID = 1000
#: GiB: what all that machines boot and deploy from takes while it is made, and what a machine may come to write.
_SHARED_GIB, _MACHINE_GIB = 10, 5
can_keep, keep, give = kept.can_keep, kept.keep, kept.give
#: What qemu says of a machine that its own system has reset.
_REBOOT = "guest-reset"


def prepare(desk: Desk, count: int) -> Path:
    """The image that all boot from, and the disk that their head deploys from."""
    program = command.ARCHITECTURES[desk.arch].program
    for name in (program, "qemu-img"):
        if not shutil.which(name):
            raise LabError(f"`{name}` is not installed; `MACHINES=vm make lab-packages` installs what machines need")
    if not taps.TUN.exists():
        raise LabError(f"{taps.TUN} is not there; a machine's network needs it (modprobe tun)")
    place = image.place(desk)
    # Those that run have their part already.
    more = sum(not cgroup.is_running(LabNode(index)) for index in range(count))
    refuse_too_many(desk, more, is_made=place.folder.is_dir() and artefacts.DISK.exists())
    made = image.ensure(desk)
    accelerator.chosen(desk.arch, made.kernel, made.initramfs)
    artefacts.ensure(desk.arch)
    return made.folder


def refuse_too_many(desk: Desk, count: int, *, is_made: bool) -> None:
    """Raises LabError where this machine has no room for so many, on its disk or in its memory."""
    wanted = (0 if is_made else _SHARED_GIB) + count * _MACHINE_GIB
    free = shutil.disk_usage(HOME).free / 2**30
    if free < wanted:
        raise LabError(
            f"{HOME} has {free:.1f} GiB free, and {count} machines ({desk.arch}) may write {wanted}: "
            "make room, or set TANDEM_LAB_DIR to a folder on another disk"
        )
    need = count * command.MEMORY_MIB / 1024
    available = _available_gib()
    if available < need:
        raise LabError(
            f"{count} machines want {need:.0f} GiB of memory, and {available:.1f} are available: fewer NODES"
        )


def lay_out(node: LabNode, shared: Path) -> None:
    """A disk over the image's, and the files that a machine has from the lab."""
    (node.home / "root").mkdir(parents=True, exist_ok=True)
    if not command.disk(node).exists():
        over = ("-f", "qcow2", "-F", "raw", "-b", image.Image(shared).disk)
        run("qemu-img", "create", "-q", *over, command.disk(node))
    (node.home / "image").unlink(missing_ok=True)
    (node.home / "image").symlink_to(shared)
    home = node.root / "home" / LOGIN
    for folder in ("etc/ssh", "etc/netplan", str(home.relative_to(node.root))):
        (node.root / folder).mkdir(parents=True, exist_ok=True)
    os.chown(home, _LOGIN_ID, _LOGIN_ID)
    home.chmod(0o700)
    units.write(node, is_emulated=accelerator.is_emulated(remembered().arch))


def is_whole(node: LabNode, shared: Path) -> bool:
    """Whether it boots from this image."""
    return (node.home / "image").is_symlink() and (node.home / "image").readlink() == shared


def boot(node: LabNode) -> bool:
    """Until its qemu ends."""
    made = image.Image((node.home / "image").readlink())
    arch = remembered().arch
    accelerated = accelerator.chosen(arch, made.kernel, made.initramfs)
    made = made.other if _wants_other_kernel(node).exists() else made
    command.initramfs(node).write_bytes(made.initramfs.read_bytes() + initramfs.overlay(node.root))
    for socket in (command.monitor(node), command.events(node)):
        socket.unlink(missing_ok=True)
    with ExitStack() as held:
        wires: dict[str, int] = {}
        for link in LINKS:
            wires[link] = taps.open_tap(Port(node, link))
            held.callback(os.close, wires[link])
            network.plug(Port(node, link))
        argv = command.whole(node, arch, accelerated, made.kernel, wires)
        process = subprocess.Popen(argv, stdin=subprocess.DEVNULL, pass_fds=tuple(wires.values()))
    reason = _outlive(node, process)
    # Its neighbours lose their carriers.
    network.settle()
    if reason != _REBOOT:
        say(f"{node.name} is off (qemu ended with {process.returncode})")
    return reason == _REBOOT


def discard(node: LabNode) -> None:
    """A folder is all that there is of it."""
    shutil.rmtree(node.home)


def renumber(node: LabNode, old: str) -> None:
    """As a client of DHCP does it, by the old address for the last time."""
    device = LINKS["mgmt"]
    change = f"ip addr del {old}/24 dev {device}; ip addr add {node.address}/24 dev {device}"
    argv = ["ssh", "-i", str(SSH_KEY), "-o", f"UserKnownHostsFile={KNOWN_HOSTS}", "-o", "StrictHostKeyChecking=yes"]
    # Its key is known by the new address already.
    argv += ["-o", f"HostKeyAlias={node.address}", "-o", "BatchMode=yes", "-o", "LogLevel=ERROR"]
    run(*argv, f"{LOGIN}@{old}", f"sudo systemd-run --quiet --collect sh -c '{change}'")


def freeze(node: LabNode) -> None:
    """Its processors stand still; its NICs keep their carriers."""
    with qmp.connected(command.monitor(node)) as talk:
        talk.do("stop")


def thaw(node: LabNode) -> None:
    """Its clock has stood still as well."""
    with qmp.connected(command.monitor(node)) as talk:
        talk.do("cont")


def choose_kernel(node: LabNode, name: str) -> None:
    """`other` is the one for clouds, with which rails have no RDMA device."""
    if name == "other":
        _wants_other_kernel(node).touch()
    else:
        _wants_other_kernel(node).unlink(missing_ok=True)


def _wants_other_kernel(node: LabNode) -> Path:
    return node.home / "other-kernel"


def _outlive(node: LabNode, process: subprocess.Popen[bytes]) -> str:
    """Wait for the end of a machine; returns why it ended, in qemu's word."""
    reason = ""
    while process.poll() is None and not command.events(node).exists():
        time.sleep(0.05)
    if process.poll() is None:
        with qmp.connected(command.events(node), patience_s=None) as talk:
            network.settle()
            for event in talk.events():
                if event["event"] == "SHUTDOWN":
                    reason = event["data"]["reason"]
    process.wait()
    return reason


def _available_gib() -> float:
    for line in Path("/proc/meminfo").read_text().splitlines():
        if line.startswith("MemAvailable:"):
            return int(line.split()[1]) / 2**20
    return 0.0
