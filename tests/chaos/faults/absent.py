"""A node that stays away: without power, shut down, unplugged. On a cable its peer's rails have no carrier then."""

from __future__ import annotations

from tests.chaos.acts import all_of, off, on_lab, pause, power_again, reboot, shut_down, status_says, until_alone
from tests.chaos.fault import FALLBACK, OTHER_KIND, Fault
from tests.lab.cluster import HEAD, WORKER
from tests.lab.settings import LabNode

CLUSTERS = ("cluster/ray", "cluster/mp")
SERVES_ON = "serves on; status says so"
UNPLUGGED = [on_lab(verb, f"spark-2:{link}") for verb in ("cut", "heal") for link in ("rail0", "rail1")]
#: Seconds in which a node serves alone: the 30 that it waits, what the ranks need to leave, and a cold start.
ALONE_S = 150.0


def _falls_back(gone: LabNode, left: LabNode) -> Fault:
    """Clients that never stop keep it from going back by itself; the deploy does it."""
    return Fault(
        f"{'the head' if gone.index == 0 else 'the worker'} without power for 10 minutes",
        all_of(off(gone), until_alone(left, ALONE_S), status_says("serves alone since", gone.name)),
        "the other serves alone after 30 s and a cold start; the deploy makes a cluster of both again",
        FALLBACK,
        heals="deploy",
        on_head=gone.index == 0,
        undo=power_again(gone),
        held_s=600,
        takes_minutes=True,
        told="in the place of a cluster: that ends here",
    )


ABSENT = [
    _falls_back(WORKER, HEAD),
    _falls_back(HEAD, WORKER),
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
    ),
]
