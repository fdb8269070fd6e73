"""Nodes that go: reboots and power cuts."""

from __future__ import annotations

from tests.chaos.acts import all_of, power, reboot
from tests.chaos.fault import ALL, BACK, BALANCED, EITHER, LLAMA, PAIRS, SWITCH, Fault
from tests.lab.cluster import HEAD, WORKER

BOTH_BOOT = f"{BACK}; both boot at once, on the lab's two cores"
#: Seconds. A cold start is timed on hosts that are up, with the cores for itself. Here two hosts boot before it, each
#: with Docker, HAProxy, two LiteLLMs and what watches the node.
BOTH_BOOT_S = 10
NODES = [
    Fault("reboot worker", reboot(WORKER), BACK, (*PAIRS, *SWITCH, *BALANCED, *LLAMA[:1])),
    Fault("reboot head", reboot(HEAD), BACK, on_head=True),
    Fault(
        "reboot both at once",
        reboot(HEAD, WORKER),
        BOTH_BOOT,
        PAIRS,
        on_head=True,
        patience_s=BOTH_BOOT_S,
        fast=("cluster/ray",),
    ),
    Fault(
        "reboot worker, then head while it boots",
        all_of(reboot(WORKER), reboot(HEAD)),
        "serves again by itself, counted from the first",
        EITHER,
        on_head=True,
        # The second one begins so much later.
        patience_s=8,
    ),
    Fault("power cut of the worker", power(WORKER), BACK, (*PAIRS, *SWITCH, *BALANCED, *LLAMA[:1])),
    Fault("power cut of the head", power(HEAD), BACK, (*ALL, *LLAMA[1:]), on_head=True),
    Fault(
        "power cut of both at once",
        power(HEAD, WORKER),
        BOTH_BOOT,
        PAIRS,
        on_head=True,
        patience_s=BOTH_BOOT_S,
    ),
]
