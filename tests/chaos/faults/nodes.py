"""Nodes that go: reboots and power cuts."""

from __future__ import annotations

from tests.chaos.acts import power, reboot
from tests.chaos.fault import BACK, PAIRS, Fault
from tests.e2e.cluster import HEAD, WORKER

NODES = [
    Fault("reboot worker", reboot(WORKER), BACK, PAIRS),
    Fault("reboot head", reboot(HEAD), BACK, on_head=True),
    Fault("reboot both at once", reboot(HEAD, WORKER), BACK, PAIRS, on_head=True, fast=("cluster/ray",)),
    Fault("power cut of the worker", power(WORKER), BACK, PAIRS),
    Fault("power cut of the head", power(HEAD), BACK, on_head=True),
    Fault("power cut of both at once", power(HEAD, WORKER), BACK, PAIRS, on_head=True),
]
