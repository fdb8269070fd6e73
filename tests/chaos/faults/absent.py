"""A node that stays away: without power, shut down, unplugged. On a cable its peer's rails have no carrier then."""

from __future__ import annotations

from tests.chaos.acts import all_of, off, on_lab, pause, power_again, reboot, shut_down, status_says
from tests.chaos.fault import OTHER_KIND, Fault
from tests.e2e.cluster import HEAD, WORKER

CLUSTERS = ("cluster/ray", "cluster/mp")
SERVES_ON = "serves on; status says so"
UNPLUGGED = [on_lab(verb, f"spark-2:{link}") for verb in ("cut", "heal") for link in ("rail0", "rail1")]

ABSENT = [
    Fault(
        "the worker without power for 5 minutes",
        all_of(off(WORKER), pause(3), status_says("spark-2", "does not answer")),
        SERVES_ON,
        ("replicas", *OTHER_KIND),
        undo=power_again(WORKER),
        held_s=300,
    ),
    Fault(
        "the worker shut down for 5 minutes",
        shut_down(WORKER),
        "serves on",
        ("replicas", *OTHER_KIND),
        undo=power_again(WORKER),
        held_s=300,
    ),
    Fault(
        "the worker unplugged for 5 minutes",
        all_of(*UNPLUGGED[:2]),
        "serves on",
        ("replicas", *OTHER_KIND),
        undo=all_of(*UNPLUGGED[2:]),
        held_s=300,
    ),
    Fault(
        "the worker without power for a minute",
        all_of(off(WORKER), pause(3), status_says("spark-2", "does not answer")),
        "status says what it waits for; serves again when it is back",
        CLUSTERS,
        undo=power_again(WORKER),
        held_s=60,
    ),
    Fault(
        "head rebooted while the worker is off",
        all_of(off(WORKER), reboot(HEAD)),
        "what is left serves within its cold start",
        ("solo",),
        on_head=True,
        afterwards=power_again(WORKER),
        fast=("solo",),
    ),
]
