"""The Debian root that every node boots from: made once, shared read-only under an overlay."""

from __future__ import annotations

import hashlib
import inspect
import shutil
from collections.abc import Callable
from pathlib import Path

from tests.lab import mounts
from tests.lab.desk import Desk
from tests.lab.settings import CACHE, DEBIAN_SUITE, LOGIN
from tests.lab.shell import run, run_with_progress, step

#: udev: `netplan apply` calls udevadm. The rest is what a DGX OS has anyway.
NODE_PACKAGES = [
    *("systemd", "systemd-sysv", "udev", "dbus", "openssh-server", "docker.io", "iproute2", "iptables", "python3"),
    *("sudo", "ca-certificates", "procps", "rsync", "iputils-ping", "netplan.io", "ethtool", "curl"),
    *("nftables", "ufw"),
]

#: A mirror may be a snapshot of weeks ago, and unstable's list is valid for one.
_OLD_LIST = '--aptopt=Acquire::Check-Valid-Until "false"'

#: Suites whose docker.io comes without the client.
CLIENT_APART = {"trixie": ["docker-cli"]}

#: The base of the lab's images: vLLM's compiled parts want libnuma; nothing else is needed at run time.
IMAGE_PACKAGES = ["python3", "python3-venv", "libnuma1", "ca-certificates"]
#: What the proxy's image has besides (files/images/proxy/Dockerfile): a build on the lab reaches no network.
PROXY_PACKAGES = ["haproxy", "keepalived"]
#: What llama.cpp's image consists of; no release of Debian's has it yet.
LLAMA_PACKAGES, LLAMA_SUITE = ["llama.cpp-tools", "ca-certificates"], "unstable"


def node_root(desk: Desk) -> Path:
    """The shared root of the nodes of a kind."""
    packages = [*NODE_PACKAGES, *CLIENT_APART.get(desk.suite, [])]
    packages += ["network-manager"] if desk.renderer == "NetworkManager" else []
    return _made("node", desk.suite, packages, _prepare_node)


def image_base(packages: list[str], suite: str = DEBIAN_SUITE) -> Path:
    """A tarball for `docker import`, the base image of an image of the lab's."""
    root = _made("image", suite, packages, _as_it_is)
    tarball = root.with_suffix(".tar")
    if not tarball.exists():
        aside = tarball.with_suffix(".part")
        run("tar", "-C", root, "-cf", aside, ".")
        aside.rename(tarball)
    return tarball


def _made(kind: str, suite: str, packages: list[str], prepare: Callable[[Path], None]) -> Path:
    recipe = f"{suite} {' '.join(packages)} {inspect.getsource(prepare)}"
    digest = hashlib.sha256(recipe.encode()).hexdigest()[:12]
    root = CACHE / f"{kind}-root-{digest}"
    if root.is_dir():
        return root
    aside = root.with_suffix(".part")
    if aside.exists():
        mounts.release(aside)
        shutil.rmtree(aside)
    CACHE.mkdir(parents=True, exist_ok=True)
    with step(f"Debian {suite} for the {kind}s (once, about 40 s)"):
        run_with_progress(
            ["mmdebstrap", "--variant=minbase", _OLD_LIST, f"--include={','.join(packages)}", suite, aside],
            "mmdebstrap",
            CACHE / f"{kind}-root.log",
        )
        prepare(aside)
        aside.rename(root)
    return root


def _as_it_is(root: Path) -> None:
    """An image's base needs nothing more."""


def _prepare_node(root: Path) -> None:
    run("chroot", root, "useradd", "--create-home", "--shell", "/bin/bash", LOGIN)
    sudoers = root / "etc/sudoers.d/90-lab"
    sudoers.write_text(f"{LOGIN} ALL=(ALL) NOPASSWD:ALL\n")
    sudoers.chmod(0o440)
    # Each node gets host keys and an identity of its own when it is made.
    for stale in [*root.glob("etc/ssh/ssh_host_*"), root / "etc/machine-id"]:
        stale.unlink(missing_ok=True)
    (root / "etc/machine-id").touch()
    # Reverse look-ups have nobody to ask here and would cost seconds at each login.
    with (root / "etc/ssh/sshd_config").open("a") as config:
        config.write("\nUseDNS no\n")
    # A guest's /sys is read-only and no udev runs over it, so `udevadm trigger` and `control` fail, and `netplan apply`
    # with them; networkd needs neither. Nor does NetworkManager: where /sys is read-only it asks no udev, and so never
    # meets the rule that would leave veths alone (85-nm-unmanaged.rules).
    udevadm = root / "usr/local/sbin/udevadm"
    udevadm.write_text('#!/bin/sh\n/usr/bin/udevadm "$@" || [ "$1" = trigger ] || [ "$1" = control ]\n')
    udevadm.chmod(0o755)
    for unit in ("apt-daily.timer", "apt-daily-upgrade.timer", "systemd-networkd-wait-online.service"):
        (root / "etc/systemd/system" / unit).symlink_to("/dev/null")
