"""The Debian roots that nodes and images are made from: each made once, and kept by what it consists of."""

from __future__ import annotations

import hashlib
import inspect
import shutil
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from tests.lab import mounts
from tests.lab.desk import OWN, Desk, cpu
from tests.lab.settings import CACHE, LOGIN
from tests.lab.shell import run, run_with_progress, step

#: udev: `netplan apply` calls udevadm. The rest is what a DGX OS has anyway.
NODE_PACKAGES = [
    *("systemd", "systemd-sysv", "udev", "dbus", "openssh-server", "docker.io", "iproute2", "iptables", "python3"),
    *("sudo", "ca-certificates", "procps", "rsync", "iputils-ping", "netplan.io", "ethtool", "curl"),
    *("nftables", "ufw"),
]

#: What a machine has besides: a kernel, what its first file system is made of, RDMA and its measure (`ib_write_bw`).
MACHINE_PACKAGES = ["busybox-static", "kmod", "apparmor", "rdma-core", "ibverbs-utils", "perftest"]
#: Debian's kernel for hardware and its one for clouds, which has no `rdma_rxe`: rails have no RDMA device then, as on a
#: Spark whose new kernel came without its driver.
MACHINE_KERNELS = ("linux-image-{arch}", "linux-image-cloud-{arch}")
#: Docker of the release after a machine's, for an upgrade where no network is; what it wants besides comes along.
NEXT_DOCKER, NEXT_SUITE = "var/lib/tandem-lab/next-docker", {"trixie": "forky"}
#: AppArmor's profiles of what a machine has; Docker brings its own.
MACHINE_PROFILES = ("lsb_release", "nvidia_modprobe", "runc", "unix-chkpwd", "unprivileged_userns")
#: The lab makes it (qemu/initramfs.py): under emulation that took most of ten minutes.
_NO_INITRAMFS = "--dpkgopt=path-exclude=/etc/kernel/postinst.d/initramfs-tools"

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


@dataclass(frozen=True)
class Root:
    """A Debian root: `prepare` is done to it after mmdebstrap, which has the `options` besides its packages."""

    kind: str
    suite: str
    packages: tuple[str, ...]
    prepare: tuple[Callable[[Path], None], ...]
    options: tuple[str, ...] = ()
    arch: str = OWN

    @property
    def place(self) -> Path:
        """The folder that has it, or would have it; its name has the hash of what it consists of."""
        sources = "".join(inspect.getsource(each) for each in self.prepare)
        recipe = f"{self.suite} {' '.join(self.packages)} {sources}{''.join(self.options)}"
        return CACHE / f"{self.kind}-root-{hashlib.sha256(recipe.encode()).hexdigest()[:12]}"

    def ensure(self) -> Path:
        """Make it when it is not there."""
        root = self.place
        if root.is_dir():
            return root
        aside = root.with_suffix(".part")
        if aside.exists():
            mounts.release(aside)
            shutil.rmtree(aside)
        CACHE.mkdir(parents=True, exist_ok=True)
        argv: list[str | Path] = ["mmdebstrap", "--variant=minbase", _OLD_LIST, *self.options]
        argv += [f"--include={','.join(self.packages)}", self.suite, aside]
        how_long = "once, about 40 s"
        if self.arch != OWN:
            how_long = f"{self.arch}, once; its programs are emulated, which takes many minutes"
        with step(f"Debian {self.suite} for the {self.kind}s ({how_long})"):
            run_with_progress(emulating(self.arch, argv), "mmdebstrap", CACHE / f"{self.kind}-root.log")
            for each in self.prepare:
                each(aside)
            aside.rename(root)
        return root


def emulating(arch: str, argv: Sequence[str | Path]) -> list[str | Path]:
    """A command during which this machine runs the programs of an architecture.

    What says so to the kernel is registered with the command, since a new kernel drops it with the command's mounts.
    """
    if arch == OWN:
        return [*argv]
    return ["sh", "-c", f'update-binfmts --enable qemu-{cpu(arch)} && exec "$@"', "sh", *argv]


def node_root(desk: Desk) -> Path:
    """The shared root of the nodes of a kind."""
    return Root("node", desk.suite, _packages(desk), (_prepare_login, _prepare_node)).ensure()


def machine_root(desk: Desk) -> Root:
    """The root of virtual machines: with a kernel, RDMA and AppArmor, of any architecture."""
    packages = (*_packages(desk), *MACHINE_PACKAGES, *(each.format(arch=desk.arch) for each in MACHINE_KERNELS))
    options = (_NO_INITRAMFS, f"--architectures={desk.arch}", f"--customize-hook={_fetching_docker(desk.suite)}")
    return Root("machine", desk.suite, packages, (_prepare_login, _prepare_machine), options, desk.arch)


def _fetching_docker(suite: str) -> str:
    """A shell command that puts the next release's Docker into a root, `$1`, by its own apt's settings."""
    after = NEXT_SUITE[suite]
    return (
        f'set -eu; export APT_CONFIG="$MMDEBSTRAP_APT_CONFIG"; list="$1/etc/apt/sources.list.d/{after}.list"; '
        f'sed -n "s/ {suite} / {after} /p" "$1/etc/apt/sources.list" >"$list"; apt-get update -qq; '
        f"apt-get clean; apt-get install --download-only --yes -qq --target-release={after} docker.io docker-cli; "
        f'mkdir -p "$1/{NEXT_DOCKER}"; mv "$1"/var/cache/apt/archives/*.deb "$1/{NEXT_DOCKER}"; '
        'rm "$list"; apt-get update -qq'
    )


def _packages(desk: Desk) -> tuple[str, ...]:
    manager = ["network-manager"] if desk.renderer == "NetworkManager" else []
    return (*NODE_PACKAGES, *CLIENT_APART.get(desk.suite, []), *manager)


def image_base(packages: list[str], suite: str, arch: str) -> Path:
    """A tarball of the base image of an image of the lab's."""
    options = () if arch == OWN else (f"--architectures={arch}",)
    root = Root("image", suite, tuple(packages), (_as_it_is,), options, arch).ensure()
    tarball = root.with_suffix(".tar")
    if not tarball.exists():
        aside = tarball.with_suffix(".part")
        run("tar", "-C", root, "-cf", aside, ".")
        aside.rename(tarball)
    return tarball


def _as_it_is(root: Path) -> None:
    """An image's base needs nothing more."""


def _prepare_login(root: Path) -> None:
    """A login, ssh for it, and nothing that a node has to itself."""
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
    for unit in ("apt-daily.timer", "apt-daily-upgrade.timer", "systemd-networkd-wait-online.service"):
        (root / "etc/systemd/system" / unit).symlink_to("/dev/null")


def _prepare_node(root: Path) -> None:
    # A guest's /sys is read-only and no udev runs over it, so `udevadm trigger` and `control` fail, and `netplan apply`
    # with them; networkd needs neither. Nor does NetworkManager: where /sys is read-only it asks no udev, and so never
    # meets the rule that would leave veths alone (85-nm-unmanaged.rules).
    udevadm = root / "usr/local/sbin/udevadm"
    udevadm.write_text('#!/bin/sh\n/usr/bin/udevadm "$@" || [ "$1" = trigger ] || [ "$1" = control ]\n')
    udevadm.chmod(0o755)


def _prepare_machine(root: Path) -> None:
    # An emulated machine has no time for what looks after a disk and a manual that nobody keeps, nor for a login that
    # nobody sees, nor for profiles of programs that are not there: a hundred of them took minutes of each first boot.
    unwanted = ("e2scrub_all.timer", "e2scrub_reap.service", "fstrim.timer", "man-db.timer", "dpkg-db-backup.timer")
    for unit in (*unwanted, "serial-getty@.service", "getty@.service"):
        (root / "etc/systemd/system" / unit).symlink_to("/dev/null")
    for profile in (root / "etc/apparmor.d").iterdir():
        if profile.is_file() and profile.name not in MACHINE_PROFILES:
            profile.unlink()
    # What systemd does after an upgrade of /usr is done.
    for mark in ("etc/.updated", "var/.updated"):
        (root / mark).touch()
