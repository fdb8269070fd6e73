"""A node's life: made, booted, rebooted, cut off from power, taken away."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from pathlib import Path

from tests.lab import cgroup, network, nspawn
from tests.lab.desk import Desk, remembered
from tests.lab.hosts import Hosts
from tests.lab.qemu import machine
from tests.lab.settings import (
    KNOWN_HOSTS,
    LINKS,
    LOGIN,
    MACHINES,
    MANAGEMENT_NET,
    SSH_KEY,
    LabNode,
    known_nodes,
)
from tests.lab.shell import TIED, LabError, run

_KINDS: dict[str, Hosts] = {"namespaces": nspawn, "vm": machine}
#: What the nodes are made of.
HOSTS = _KINDS[MACHINES]
#: Applies sysctl.d to one netdev, whose name follows.
SYSCTL_OF = "/lib/systemd/systemd-sysctl --prefix=/net/ipv4/conf/"
#: The way in, where NetworkManager has it.
PROFILE = "5d2c5be2-6f0e-4b0c-9b52-1f0a2a6c6a10"
#: Seconds after which a node that was told to start has started, or has ended.
_STARTED_S = 30.0


def make(node: LabNode, desk: Desk, shared: Path) -> None:
    """Lay out a node's own files over what all have in common; what is there already stays."""
    HOSTS.lay_out(node, shared)
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
    HOSTS.renumber(node, old)


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
    node.console.parent.mkdir(exist_ok=True)
    log = node.console.open("a")
    subprocess.Popen(
        [sys.executable, "-m", "tests.lab.node", str(node.index)],
        stdin=subprocess.DEVNULL,
        stdout=log,
        stderr=log,
        start_new_session=True,
        cwd=Path(__file__).parents[2],
    )


def power_off(node: LabNode) -> None:
    """Pull the plug: everything gets SIGKILL, nothing is flushed or said goodbye to."""
    # The kernel, which lives on, would tell the other nodes that their connections are closed. Nothing is asked of the
    # node any more: a machine that gets no processor answers in minutes.
    network.WIRES.go_dark(node)
    cgroup.kill(node)
    # In its last moment it may have brought one up again.
    network.go_dark(node)


def remove(node: LabNode) -> None:
    """Stop the node and delete its files."""
    power_off(node)
    cgroup.remove(node)
    HOSTS.discard(node)


def wait_until_up(node: LabNode, timeout_s: float = HOSTS.BOOT_S) -> float:
    """Wait until the node answers over ssh and Docker runs; returns the seconds it took."""
    start = time.monotonic()
    ready = "systemctl is-active --quiet docker && echo up"
    while time.monotonic() - start < timeout_s:
        # An ssh that waits for a node would outlive an `up` that was killed, by its own three seconds.
        if "up" in run(*TIED, *ssh_argv(node), ready, check=False):
            return time.monotonic() - start
        if time.monotonic() - start > _STARTED_S and not cgroup.is_running(node):
            raise LabError(f"{node.name} went off while it booted; its console is {node.console}")
        time.sleep(0.5)
    raise LabError(f"{node.name} did not come up in {timeout_s:.0f} s; its console is {node.console}")


def boot_id(node: LabNode) -> str:
    """What differs from boot to boot; empty: it does not answer."""
    return run(*ssh_argv(node), HOSTS.BOOT_ID, check=False).strip()


def greet(node: LabNode, device: str, *, check: bool = True) -> None:
    """What udev runs for a netdev that appears (99-systemd.rules), where a node has none."""
    if not HOSTS.HAS_UDEV:
        run(*ssh_argv(node), f"sudo {SYSCTL_OF}{device}", check=check)


def ssh_argv(node: LabNode) -> list[str]:
    """The ssh command line for a node, without the remote command."""
    return [
        *("ssh", "-i", str(SSH_KEY), "-o", f"UserKnownHostsFile={KNOWN_HOSTS}", "-o", "StrictHostKeyChecking=yes"),
        *("-o", f"ConnectTimeout={HOSTS.LOGIN_S}", "-o", "BatchMode=yes", "-o", "LogLevel=ERROR"),
        # A node that died in the midst of a command is not waited for for two hours.
        *("-o", "ServerAliveInterval=60", "-o", "ServerAliveCountMax=10"),
        f"{LOGIN}@{node.address}",
    ]


def _keep(node: LabNode) -> None:
    cgroup.enter(node)
    while HOSTS.boot(node):
        pass


if __name__ == "__main__":
    _keep(LabNode(int(sys.argv[1])))
