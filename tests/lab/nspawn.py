"""Hosts booted in namespaces of this machine (systemd-nspawn): fast, and with this machine's kernel."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Sequence
from pathlib import Path

from tests.lab import mounts, veths
from tests.lab.desk import Desk
from tests.lab.settings import ARTEFACTS, ARTEFACTS_ON_HEAD, LINKS, NODES, LabNode
from tests.lab.shell import LabError, run, say

BOOT_S = 90.0
LOGIN_S = 3
#: When the node's init started (ticks); the kernel's own number is this machine's.
BOOT_ID = "cut -d' ' -f22 /proc/1/stat"
#: A guest's /sys is read-only, and no udev runs over it.
HAS_UDEV = False
#: systemd-nspawn ends with this when the guest asked for a reboot.
REBOOT_WANTED = 133
#: Where Docker and its containerd keep their data: on the plain filesystem, since no overlay lies on an overlay.
STORES = ("docker", "containerd")


def prepare(desk: Desk, count: int) -> Path:
    """The shared root, and the images and models that the head sees. Any number of hosts can be."""
    # Imported here: building needs packages that looking and breaking do not.
    from tests.lab import deeper, further, images, model, rootfs

    shared = rootfs.node_root(desk)
    model.ensure()
    further.ensure()
    deeper.ensure()
    images.ensure()
    return shared


def lay_out(node: LabNode, shared: Path) -> None:
    """An overlay over the shared root, on a disk of the node's own."""
    _give_disk(node)
    for folder in ("upper", "work", "root", *STORES):
        (node.home / folder).mkdir(parents=True, exist_ok=True)
    if not os.path.ismount(node.root):
        layers = f"lowerdir={shared},upperdir={node.home}/upper,workdir={node.home}/work"
        run("mount", "-t", "overlay", "overlay", "-o", layers, node.root)


def is_whole(node: LabNode, shared: Path) -> bool:
    """Whether its files lie on a disk of its own."""
    return os.path.ismount(node.home) or not (node.home / "upper").exists()


def boot(node: LabNode) -> bool:
    """Until nspawn ends."""
    bind = [f"--bind={node.home}/{store}:/var/lib/{store}" for store in STORES]
    if node.index == 0:
        ARTEFACTS.mkdir(parents=True, exist_ok=True)
        bind.append(f"--bind-ro={ARTEFACTS}:{ARTEFACTS_ON_HEAD}")
    argv = [
        *("systemd-nspawn", "--quiet", "--register=no", "--keep-unit", "--boot", f"--directory={node.root}"),
        *(f"--machine={node.name}", f"--hostname={node.name}", "--resolv-conf=off", "--timezone=off"),
        *(f"--network-namespace-path=/run/netns/{node.namespace}", "--capability=all", *bind),
        *("--system-call-filter=add_key keyctl bpf mount @mount @privileged", "--console=pipe"),
    ]
    veths.begin_anew(node)
    # Docker in the guest wants cgroup v2, whatever this machine mounts, and sets net.ipv4.ip_forward;
    # the rest of /proc/sys is this machine's own and stays read-only.
    env = {**os.environ, "SYSTEMD_NSPAWN_UNIFIED_HIERARCHY": "1", "SYSTEMD_NSPAWN_API_VFS_WRITABLE": "network"}
    code = subprocess.run(argv, stdin=subprocess.DEVNULL, env=env, check=False).returncode
    if code != REBOOT_WANTED:
        say(f"{node.name} powered off (nspawn ended with {code})")
    return code == REBOOT_WANTED


def discard(node: LabNode) -> None:
    """Its disk is one file."""
    mounts.release(node.home)
    node.disk.unlink(missing_ok=True)
    shutil.rmtree(node.home, ignore_errors=False)


def renumber(node: LabNode, old: str) -> None:
    """As a client of DHCP does it: the old one has to be given up before the new one may be used."""
    device = ("dev", LINKS["mgmt"])
    run("ip", "-n", node.namespace, "addr", "del", f"{old}/24", *device)
    run("ip", "-n", node.namespace, "addr", "add", f"{node.address}/24", *device)


def freeze(node: LabNode) -> None:
    """Its kernel is this machine's."""
    raise LabError(f"{node.name} has no kernel of its own that could stand still: MACHINES=vm has")


def thaw(node: LabNode) -> None:
    """It never stands still."""
    freeze(node)


def choose_kernel(node: LabNode, name: str) -> None:
    """Its kernel is this machine's."""
    raise LabError(f"{node.name} has no kernel of its own that it could boot: MACHINES=vm has")


def can_keep(nodes: Sequence[LabNode]) -> None:
    """They are made in seconds."""
    raise LabError("disks of hosts in namespaces are not kept: MACHINES=vm keeps them")


def keep(nodes: Sequence[LabNode]) -> None:
    """They are not."""
    can_keep(nodes)


def give(nodes: Sequence[LabNode], shared: Path) -> bool:
    """There are no copies."""
    return False


def _give_disk(node: LabNode) -> None:
    """A file is its disk, as large as this machine has room. A node's many thousand files go with it in one step:
    one by one they take minutes on a disk that is told of each (`discard`).
    """
    node.home.mkdir(parents=True, exist_ok=True)
    if os.path.ismount(node.home):
        return
    mount = ("mount", "-o", "loop,noatime,noinit_itable", node.disk, node.home)
    if node.disk.exists():
        # This machine has booted since; one that can't be mounted was broken off.
        run(*mount, check=False)
        if os.path.ismount(node.home):
            return
        node.disk.unlink()
    with node.disk.open("wb") as disk:
        disk.truncate(shutil.disk_usage(NODES).free)
    # No journal: the kernel lives on through a node's power cut.
    run("mkfs.ext4", "-q", "-m", "0", "-O", "^has_journal", "-E", "lazy_itable_init=1,nodiscard", node.disk)
    run(*mount)
