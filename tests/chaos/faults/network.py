"""Rails, MTU and addresses that are lost."""

from __future__ import annotations

from tests.chaos.acts import all_of, on_lab, pause, sh, status_says, until_alone
from tests.chaos.deploying import netplan_unconfirmed
from tests.chaos.fault import BALANCED, EITHER, FALLBACK, LLAMA, OTHER_KIND, PAIRS, SWITCH, Fault
from tests.chaos.faults.absent import ALONE_S
from tests.lab.cluster import HEAD, WORKER

GONE = all_of(on_lab("take", "spark-2:rail0"), on_lab("take", "spark-2:rail1"))
BACK_AGAIN = all_of(on_lab("give", "spark-2:rail0"), on_lab("give", "spark-2:rail1"))

NETWORK = [
    Fault(
        "rail 0 cut for 5 s",
        on_lab("cut", "spark-2:rail0"),
        "nothing is started anew",
        (*PAIRS, *SWITCH, *BALANCED, *LLAMA[:1]),
        undo=on_lab("heal", "spark-2:rail0"),
        held_s=5,
    ),
    Fault(
        "rail 0 cut for 5 minutes",
        on_lab("cut", "spark-2:rail0"),
        "serves again when it is back",
        EITHER,
        undo=on_lab("heal", "spark-2:rail0"),
        held_s=300,
    ),
    Fault(
        "one rail of two cut",
        on_lab("cut", "spark-2:rail1"),
        "serves on over the other",
        (*EITHER, *SWITCH[:1], *BALANCED),
        "nothing",
        undo=on_lab("heal", "spark-2:rail1"),
        held_s=20,
    ),
    Fault(
        "both rails' netdevs gone for 5 minutes",
        all_of(GONE, pause(20), status_says("the interface enp1s0f0np0 is gone: plug the cable in at both ends")),
        "replicas serve on from each node by itself; a cluster names what is missing, and serves again when it is back",
        (*EITHER, *BALANCED, *OTHER_KIND),
        undo=BACK_AGAIN,
        held_s=300,
    ),
    Fault(
        "both rails' netdevs gone, with a fallback",
        all_of(GONE, until_alone(HEAD, ALONE_S), until_alone(WORKER, ALONE_S), status_says("serves alone since")),
        "each node serves alone after 30 s and a cold start; the deploy makes a cluster of both again",
        FALLBACK,
        heals="deploy",
        undo=BACK_AGAIN,
        takes_minutes=True,
        told="in the place of a cluster: that ends here",
    ),
    Fault(
        "both rails' netdevs gone for 20 s",
        GONE,
        "serves on: nothing of it goes over a rail",
        ("solo",),
        "nothing",
        undo=BACK_AGAIN,
        held_s=20,
    ),
    Fault(
        "MTU 1500 on one side",
        sh(WORKER, "ip link set enp1s0f0np0 mtu 1500"),
        "named; the deploy sets it; ranks that hang on it start anew",
        EITHER,
        "nothing",
        told="has MTU 1500, not 9000",
        held_s=5,
    ),
    Fault(
        "fabric address removed",
        sh(WORKER, "ip addr del 192.168.177.12/24 dev enp1s0f0np0"),
        "named; the deploy sets it",
        EITHER,
        "deploy",
        told="has not the address",
        held_s=20,
    ),
    Fault(
        "power cut before a netplan file is confirmed",
        netplan_unconfirmed,
        "the boot takes the file back",
        ("cluster/ray",),
        patience_s=60,
    ),
]
