"""A node's life: made, booted, rebooted, cut off from power, taken away."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import time
from pathlib import Path

from tests.lab import cgroup, mounts, network
from tests.lab.desk import Desk, remembered
from tests.lab.settings import (
    ARTEFACTS,
    ARTEFACTS_ON_HEAD,
    KNOWN_HOSTS,
    LINKS,
    LOGIN,
    MANAGEMENT_NET,
    NODES,
    SSH_KEY,
    LabNode,
    known_nodes,
)
from tests.lab.shell import TIED, LabError, run, say

#: systemd-nspawn ends with this when the guest asked for a reboot.
REBOOT_WANTED = 133
#: Applies sysctl.d to one netdev, whose name follows.
SYSCTL_OF = "/lib/systemd/systemd-sysctl --prefix=/net/ipv4/conf/"
#: The way in, where NetworkManager has it.
PROFILE = "5d2c5be2-6f0e-4b0c-9b52-1f0a2a6c6a10"
#: Where Docker and its containerd keep their data: on the plain filesystem, since no overlay lies on an overlay.
STORES = ("docker", "containerd")


def make(node: LabNode, desk: Desk, shared_root: Path) -> None:
    """Lay out a node's own files over the shared root, on a disk of its own; what is there already stays."""
    _give_disk(node)
    for folder in ("upper", "work", "root", *STORES):
        (node.home / folder).mkdir(parents=True, exist_ok=True)
    if not os.path.ismount(node.root):
        layers = f"lowerdir={shared_root},upperdir={node.home}/upper,workdir={node.home}/work"
        run("mount", "-t", "overlay", "overlay", "-o", layers, node.root)
    etc = node.root / "etc"
    (etc / "hostname").write_text(f"{node.name}\n")
    (etc / "hosts").write_text(f"127.0.0.1 localhost\n127.0.1.1 {node.name}\n")
    write_netplan(node, desk)
    if desk.has_containerd_store:
        (etc / "docker").mkdir(exist_ok=True)
        (etc / "docker/daemon.json").write_text('{"features": {"containerd-snapshotter": true}}\n')
    host_key = etc / "ssh/ssh_host_ed25519_key"
    if not host_key.exists():
        run("ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-C", node.name, "-f", host_key)
    authorised = node.root / "home" / LOGIN / ".ssh/authorized_keys"
    authorised.parent.mkdir(mode=0o700, exist_ok=True)
    authorised.write_text(SSH_KEY.with_suffix(".pub").read_text())
    owner = (node.root / "home" / LOGIN).stat()
    for path in (authorised.parent, authorised):
        os.chown(path, owner.st_uid, owner.st_gid)


def write_netplan(node: LabNode, desk: Desk) -> None:
    """Its network from the next boot on: its address in the office."""
    head = f"network:\n  version: 2\n  renderer: {desk.renderer}\n  ethernets:\n"
    # The rails are up without an address, as DGX OS leaves them: a carrier can be seen before anything is set.
    rails = [device for link, device in LINKS.items() if link != "mgmt"]
    bare = "".join(f"    {device}: {{dhcp4: false, link-local: [], optional: true}}\n" for device in rails)
    way_in = f"    {LINKS['mgmt']}:\n      dhcp4: false\n      addresses: [{node.address}/24]\n"
    if desk.renderer == "NetworkManager":
        # A profile of its own, as NetworkManager saves what its owner has set up by hand.
        way_in += f"      networkmanager: {{uuid: {PROFILE}, name: Wired connection 1}}\n"
        places = {"01-lab": bare, f"90-NM-{PROFILE}": way_in}
    else:
        places = {"01-lab": way_in + bare}
    for name, entries in places.items():
        file = node.root / f"etc/netplan/{name}.yaml"
        file.write_text(head + entries)
        file.chmod(0o600)


def move(node: LabNode, last: int, *, rebooting: bool) -> None:
    """Another address in the office, as a router gives one: by the reboot that this begins, or while the node runs.
    `last`: its last byte; its first one has 11 and its index.
    """
    argv, old = ssh_argv(node), node.address
    if last == 11 + node.index:
        node.given.unlink(missing_ok=True)
    else:
        node.given.write_text(f"{MANAGEMENT_NET}.{last}")
    write_netplan(node, remembered())
    if rebooting:
        # By the old address, whose key is known until then.
        run(*argv, "sudo systemctl reboot", check=False)
    write_known_hosts(known_nodes())
    if rebooting:
        return
    device = ("dev", LINKS["mgmt"])
    # As a client of DHCP does it: the old one has to be given up before the new one may be used.
    run("ip", "-n", node.namespace, "addr", "del", f"{old}/24", *device)
    run("ip", "-n", node.namespace, "addr", "add", f"{node.address}/24", *device)


def write_known_hosts(nodes: list[LabNode]) -> None:
    """The nodes' host keys, so that strict checking works from the first connection."""
    lines = []
    for node in nodes:
        kind, key = (node.root / "etc/ssh/ssh_host_ed25519_key.pub").read_text().split()[:2]
        lines.append(f"{node.address} {kind} {key}\n")
    KNOWN_HOSTS.write_text("".join(lines))


def power_on(node: LabNode) -> None:
    """Start the keeper, which boots the node and boots it again when it asks for a reboot."""
    if cgroup.is_running(node):
        return
    # Linux 6.18 kills whatever systemd 257 starts in groups of which some were there at a power cut and some are new.
    cgroup.remove(node)
    log = (node.home / "console.log").open("a")
    subprocess.Popen(
        [sys.executable, "-m", "tests.lab.node", str(node.index)],
        stdin=subprocess.DEVNULL,
        stdout=log,
        stderr=log,
        start_new_session=True,
        cwd=Path(__file__).parents[2],
    )


def has_disk(node: LabNode) -> bool:
    """Whether its files lie on one."""
    return os.path.ismount(node.home) or not (node.home / "upper").exists()


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


def power_off(node: LabNode) -> None:
    """Pull the plug: everything gets SIGKILL, nothing is flushed or said goodbye to."""
    # The kernel, which lives on, would tell the other nodes that their connections are closed.
    network.go_dark(node)
    cgroup.kill(node)
    # In its last moment it may have brought one up again.
    network.go_dark(node)


def remove(node: LabNode) -> None:
    """Stop the node and delete its files."""
    power_off(node)
    cgroup.remove(node)
    mounts.release(node.home)
    node.disk.unlink(missing_ok=True)
    shutil.rmtree(node.home, ignore_errors=False)


def wait_until_up(node: LabNode, timeout_s: float = 90) -> float:
    """Wait until the node answers over ssh and Docker runs; returns the seconds it took."""
    start = time.monotonic()
    ready = "systemctl is-active --quiet docker && echo up"
    while time.monotonic() - start < timeout_s:
        # An ssh that waits for a node would outlive an `up` that was killed, by its own three seconds.
        if "up" in run(*TIED, *ssh_argv(node), ready, check=False):
            return time.monotonic() - start
        time.sleep(0.5)
    raise LabError(f"{node.name} did not come up in {timeout_s:.0f} s; its console is {node.home}/console.log")


def boot_id(node: LabNode) -> str:
    """When the node's init started (ticks): another one means another boot. Empty: it does not answer."""
    return run(*ssh_argv(node), "cut -d' ' -f22 /proc/1/stat", check=False).strip()


def greet(node: LabNode, device: str) -> None:
    """What udev runs for a netdev that appears (99-systemd.rules): in a guest there is no udev."""
    run(*ssh_argv(node), f"sudo {SYSCTL_OF}{device}")


def ssh_argv(node: LabNode) -> list[str]:
    """The ssh command line for a node, without the remote command."""
    return [
        *("ssh", "-i", str(SSH_KEY), "-o", f"UserKnownHostsFile={KNOWN_HOSTS}", "-o", "StrictHostKeyChecking=yes"),
        *("-o", "ConnectTimeout=3", "-o", "BatchMode=yes", "-o", "LogLevel=ERROR", f"{LOGIN}@{node.address}"),
    ]


def _keep(node: LabNode) -> None:
    cgroup.enter(node)
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
    code = REBOOT_WANTED
    while code == REBOOT_WANTED:
        network.begin_anew(node)
        # Docker in the guest wants cgroup v2, whatever this machine mounts, and sets net.ipv4.ip_forward;
        # the rest of /proc/sys is this machine's own and stays read-only.
        env = {**os.environ, "SYSTEMD_NSPAWN_UNIFIED_HIERARCHY": "1", "SYSTEMD_NSPAWN_API_VFS_WRITABLE": "network"}
        code = subprocess.run(argv, stdin=subprocess.DEVNULL, env=env, check=False).returncode
    say(f"{node.name} powered off (nspawn ended with {code})")


if __name__ == "__main__":
    _keep(LabNode(int(sys.argv[1])))
