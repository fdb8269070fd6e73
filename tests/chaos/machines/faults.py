"""What is done to virtual machines. The proxy that clients ask is the head's, so most of it is done to the worker."""

from __future__ import annotations

from tests.chaos.acts import Act, all_of, on_lab, power, sh
from tests.chaos.fault import BACK, Fault
from tests.chaos.running_short import memory_hog
from tests.lab.cluster import HEAD, WORKER

REBOOT = "reboot of the worker"
RAILS = ("spark-2:rail0", "spark-2:rail1")
#: The login that does it shall have ended before.
PANIC = "systemd-run --quiet --collect sh -c 'sleep 2 && echo c >/proc/sysrq-trigger'"
READ_ONLY = "echo u >/proc/sysrq-trigger"
OUT_OF_MEMORY = "echo f >/proc/sysrq-trigger"


def _stepped(by: str) -> Act:
    return all_of(*(sh(node, f"date -s '{by}'") for node in (HEAD, WORKER)))


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
]
