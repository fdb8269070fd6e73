"""What is done to virtual machines. The proxy that clients ask is the head's, so most of it is done to the worker."""

from __future__ import annotations

import time

from operations.paths import SLICE
from tests.chaos.acts import Act, all_of, on_lab, pause, power, sh
from tests.chaos.fault import BACK, Fault
from tests.chaos.running_short import memory_hog
from tests.chaos.scene import Scene
from tests.lab.cluster import HEAD, WORKER
from tests.lab.rootfs import NEXT_DOCKER

REBOOT = "reboot of the worker"
RAILS = ("spark-2:rail0", "spark-2:rail1")
#: The login that does it shall have ended before.
PANIC = "systemd-run --quiet --collect sh -c 'sleep 2 && echo c >/proc/sysrq-trigger'"
READ_ONLY = "echo u >/proc/sysrq-trigger"
OUT_OF_MEMORY = "echo f >/proc/sysrq-trigger"
#: Seconds that programs stand still, and the command: a unit in a group of its own lets the others go on.
STILL_S = 120
_GROUPS = f"/sys/fs/cgroup/system.slice /sys/fs/cgroup/user.slice /sys/fs/cgroup/{SLICE}"
_SET = f"for each in {_GROUPS}; do echo %s >$each/cgroup.freeze; done"
STAND_STILL = (
    f"systemd-run --quiet --collect --slice=lab.slice sh -c 'sleep 2; {_SET % 1}; sleep {STILL_S}; {_SET % 0}'"
)
UPGRADE_DOCKER = f"DEBIAN_FRONTEND=noninteractive dpkg --force-confold --install /{NEXT_DOCKER}/*.deb"


def _stepped(by: str) -> Act:
    return all_of(*(sh(node, f"date -s '{by}'") for node in (HEAD, WORKER)))


def _back_to_own_kernel(scene: Scene) -> None:
    all_of(on_lab("kernel", WORKER.name, "own"), on_lab("reboot", WORKER.name))(scene)
    scene.wait_until_all_answer(time.monotonic(), scene.PATIENCE_S)


FAULTS = [
    Fault(REBOOT, on_lab("reboot", WORKER.name), BACK),
    Fault("power cut of the worker", power(WORKER), BACK),
    Fault(
        "the worker stands still for 2 minutes, its kernel too",
        on_lab("freeze", WORKER.name),
        "serves on from the head",
        undo=on_lab("thaw", WORKER.name),
        held_s=120,
    ),
    Fault(
        "the worker's programs stand still for 2 minutes, its kernel goes on",
        sh(WORKER, STAND_STILL),
        "serves on from the head",
        undo=pause(0.0),
        held_s=STILL_S + 10,
    ),
    Fault(
        "reboot of the worker into another kernel, without RDMA",
        all_of(on_lab("kernel", WORKER.name, "other"), on_lab("reboot", WORKER.name)),
        "serves again by itself: replicas need no RDMA",
        afterwards=_back_to_own_kernel,
    ),
    Fault(
        "both rails' netdevs gone for a minute",
        all_of(*(on_lab("take", rail) for rail in RAILS)),
        "each node serves on by itself; the netdevs get their addresses back",
        undo=all_of(*(on_lab("give", rail) for rail in RAILS)),
        held_s=60,
    ),
    Fault(
        "the worker's disk turns read-only",
        sh(WORKER, READ_ONLY),
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
    Fault(
        "kernel panic of the worker",
        sh(WORKER, PANIC),
        "serves on from the head; the worker stands until its power is cut a minute later",
        undo=power(WORKER),
        held_s=60,
    ),
    Fault("the kernel's OOM killer, worker", sh(WORKER, OUT_OF_MEMORY), "it takes a LiteLLM, which comes back"),
    Fault(
        "the kernel's OOM killer, head",
        sh(HEAD, OUT_OF_MEMORY),
        "it takes a LiteLLM: its streams end, nobody else notices",
        on_head=True,
    ),
    Fault("memory hog on the worker", memory_hog, "the guard kills the engine, which comes back"),
    Fault("Docker upgraded on the worker, to the one of Debian's next release", sh(WORKER, UPGRADE_DOCKER), BACK),
]
