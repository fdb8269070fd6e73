"""What is done to virtual machines. The proxy that clients ask is the head's, so most of it is done to the worker."""

from __future__ import annotations

import subprocess
import time
from collections.abc import Sequence
from dataclasses import replace

from operations.paths import SLICE
from tests.chaos.acts import Act, all_of, on_lab, power, sh
from tests.chaos.fault import BACK, KILL, Fault
from tests.chaos.machines.scene import CLUSTER, REPLICAS
from tests.chaos.running_short import memory_hog
from tests.chaos.scene import Scene
from tests.lab.cluster import HEAD, WORKER, lab, on
from tests.lab.qemu.units import RDMA
from tests.lab.rootfs import NEXT_DOCKER
from tests.lab.settings import LINKS, LabNode
from tests.support.waiting import until

REBOOT, POWER_CUT = "reboot of the worker", "power cut of the worker"
RAILS = ("rail0", "rail1")
_RAILS = tuple(f"{WORKER.name}:{rail}" for rail in RAILS)
#: The login that does it shall have ended before.
PANIC = "systemd-run --quiet --collect sh -c 'sleep 20 && echo c >/proc/sysrq-trigger'"
#: Seconds that programs stand still: systemd has not missed a service's sign of life by then (WatchdogSec=3min). A unit
#: in a group of its own lets the others go on, and keeps what their group says meanwhile.
STILL_S = 45
_STOOD = "/run/lab-frozen"
_GROUPS = f"/sys/fs/cgroup/system.slice /sys/fs/cgroup/user.slice /sys/fs/cgroup/{SLICE}"
_SET = f"for each in {_GROUPS}; do echo %s >$each/cgroup.freeze; done"
STAND_STILL = (
    f"systemd-run --quiet --collect --slice=lab.slice sh -c 'sleep 2; {_SET % 1}; sleep {STILL_S}; "
    f"cat /sys/fs/cgroup/system.slice/cgroup.events >{_STOOD}; {_SET % 0}'"
)
#: What comes between: Debian's restarts no dockerd that runs.
UPGRADE_DOCKER = (
    "DEBIAN_FRONTEND=noninteractive dpkg --auto-deconfigure --force-confold "
    f"--install /{NEXT_DOCKER}/*.deb && systemctl restart docker"
)


def _stepped(by: str) -> Act:
    return all_of(*(sh(node, f"date -s '{by}'") for node in (HEAD, WORKER)))


def _stood_still(_scene: Scene) -> None:
    """Fails where they have not."""
    told = on(WORKER, f"cat {_STOOD} && rm {_STOOD}")
    assert "frozen 1" in told, told


def _read_only(_scene: Scene) -> None:
    """The disk; it turns so by and by."""
    on(WORKER, "echo u >/proc/sysrq-trigger")
    until(lambda: " / ext4 ro" in on(WORKER, "cat /proc/mounts"), 60, 1.0)


def _is_silent(_scene: Scene) -> None:
    """Fails where the worker's kernel answers."""
    ping = ["ping", "-c", "1", "-W", "5", WORKER.address]
    assert subprocess.run(ping, capture_output=True, check=False).returncode == 1, "the worker's kernel answers"


def _out_of_memory(node: LabNode) -> Act:
    """The kernel's OOM killer chooses somebody."""

    def act(_scene: Scene) -> None:
        before = on(node, "grep oom_kill /proc/vmstat")
        on(node, "echo f >/proc/sysrq-trigger")
        until(lambda: on(node, "grep oom_kill /proc/vmstat") != before, 60, 1.0)

    return act


def _other_kernel(_scene: Scene) -> None:
    """By a reboot, for this once. Fails where the kernel is the same, or has RDMA."""
    lab("kernel", WORKER.name, "other")
    try:
        lab("reboot", WORKER.name)
    finally:
        lab("kernel", WORKER.name, "own")
    told = on(WORKER, "uname -r; rdma link")
    assert "cloud" in told and "link" not in told, told


def _own_kernel(scene: Scene) -> None:
    lab("reboot", WORKER.name)
    scene.wait_until_all_answer(time.monotonic(), scene.PATIENCE_S)


def _addresses() -> list[str]:
    rails = [f"show dev {LINKS[rail]}" for rail in RAILS]
    return on(WORKER, "; ".join(f"ip -o -4 address {rail}" for rail in rails), check=False).split()


def _back_with_addresses(_scene: Scene) -> None:
    """Both netdevs. Fails where they get no addresses by themselves."""
    for rail in _RAILS:
        lab("give", rail)
    until(lambda: all(LINKS[rail] in _addresses() for rail in RAILS), 300, 2.0)


def _upgraded_docker(_scene: Scene) -> None:
    """Fails where the same dockerd runs on."""
    look = "docker version --format '{{.Server.Version}}'"
    before = on(WORKER, look)
    on(WORKER, UPGRADE_DOCKER)
    after = on(WORKER, look)
    assert after != before, f"Docker is {after.strip()}, as before: `python -m tests.lab down` first"


def _found(network: str, then: Act) -> Act:
    """An act that fails where the worker's start has not gone on without a device, or where a rank's NCCL has found
    something else than `network`.
    """
    started = "_SYSTEMD_INVOCATION_ID=$(systemctl show --property=InvocationID --value tandem-engine)"

    def act(scene: Scene) -> None:
        try:
            on(WORKER, f"journalctl {started} --output=cat | grep 'starts without RDMA devices'")
            for node in (HEAD, WORKER):
                on(node, f"journalctl {started} --output=cat | grep -- '{network}'")
        finally:
            then(scene)

    return act


def _rdma_gone(rails: Sequence[str]) -> Act:
    """The worker's devices of these rails, and its rank."""
    return all_of(*(sh(WORKER, f"rdma link delete {RDMA[rail]}") for rail in rails), sh(WORKER, KILL))


def _rdma_back(rails: Sequence[str]) -> Act:
    return sh(WORKER, f"systemctl restart {' '.join(f'lab-{RDMA[rail]}' for rail in rails)}")


_BY_SOCKETS = "Using network Socket"
_ANY = [
    Fault(REBOOT, on_lab("reboot", WORKER.name), BACK),
    Fault(POWER_CUT, power(WORKER), BACK),
    Fault("power cut of both at once", power(HEAD, WORKER), BACK, on_head=True),
    Fault(
        "kernel panic of the worker",
        sh(WORKER, PANIC),
        "serves again when the worker's power was cut, a minute later",
        undo=all_of(_is_silent, power(WORKER)),
        held_s=80,
    ),
]
_FROZEN = Fault(
    "the worker stands still for 2 minutes, its kernel too",
    on_lab("freeze", WORKER.name),
    "serves on from the head",
    undo=on_lab("thaw", WORKER.name),
    held_s=120,
)
_OTHER_KERNEL = Fault(
    "reboot of the worker into another kernel, without RDMA",
    _other_kernel,
    "serves again by itself: replicas need no RDMA",
    afterwards=_own_kernel,
)
_NETDEVS_GONE = Fault(
    "both rails' netdevs gone for a minute",
    all_of(*(on_lab("take", rail) for rail in _RAILS)),
    "each node serves on by itself; the netdevs get their addresses back",
    undo=_back_with_addresses,
    held_s=60,
)
_OF_REPLICAS = [
    _FROZEN,
    Fault(
        f"the worker's programs stand still for {STILL_S} s, its kernel goes on",
        sh(WORKER, STAND_STILL),
        "serves on from the head",
        undo=_stood_still,
        held_s=STILL_S + 15,
    ),
    _OTHER_KERNEL,
    _NETDEVS_GONE,
    Fault(
        "the worker's disk turns read-only",
        _read_only,
        "serves on; a power cut a minute later, and the boot behind it, make the disk whole",
        undo=power(WORKER),
        held_s=60,
    ),
    Fault(
        "the clocks of both nodes go forward by an hour for a minute",
        _stepped("+1 hour"),
        "serves on",
        heals="nothing",
        undo=_stepped("-1 hour"),
        held_s=60,
    ),
    Fault("the kernel's OOM killer, worker", _out_of_memory(WORKER), "it takes a LiteLLM, which comes back"),
    Fault(
        "the kernel's OOM killer, head",
        _out_of_memory(HEAD),
        "it takes a LiteLLM: its streams end, nobody else notices",
        on_head=True,
    ),
    Fault("memory hog on the worker", memory_hog, "the guard kills the engine, which comes back"),
    Fault("Docker upgraded on the worker, to the one of Debian's next release", _upgraded_docker, BACK),
]
_OF_RANKS = [
    replace(_FROZEN, expected="the ranks meet again when it goes on"),
    replace(_NETDEVS_GONE, expected="the ranks end, and meet again when the netdevs have their addresses back"),
    replace(
        _OTHER_KERNEL,
        expected="waits a minute for its RDMA devices; then all ranks send by sockets",
        afterwards=_found(_BY_SOCKETS, _own_kernel),
    ),
    Fault(
        "the worker's RDMA devices gone, and its rank ends",
        _rdma_gone(RAILS),
        "waits a minute for them; then all ranks send by sockets",
        afterwards=_found(_BY_SOCKETS, _rdma_back(RAILS)),
    ),
    Fault(
        "one of the worker's two RDMA devices gone, and its rank ends",
        _rdma_gone(RAILS[:1]),
        "waits a minute for it; then all ranks use the other one alone",
        afterwards=_found(f"Using \\[0\\]{RDMA[RAILS[1]]}:1/RoCE$", _rdma_back(RAILS[:1])),
    ),
    Fault("the kernel's OOM killer, worker", _out_of_memory(WORKER), BACK),
]
FAULTS = [
    *(replace(fault, scenes=(REPLICAS, CLUSTER)) for fault in _ANY),
    *(replace(fault, scenes=(REPLICAS,)) for fault in _OF_REPLICAS),
    *(replace(fault, scenes=(CLUSTER,)) for fault in _OF_RANKS),
]
