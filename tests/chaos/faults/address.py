"""Each part of the door on the node that has the virtual address, and that node; and the other one."""

from __future__ import annotations

from tests.chaos.acts import Act, all_of, on_holder, on_lab, on_other, pause, power, reboot, sh, until_all_answer
from tests.chaos.fault import ADDRESS as SCENE
from tests.chaos.fault import Fault
from tests.chaos.scene import Scene
from tests.lab.cluster import lab
from tests.lab.settings import LabNode, known_nodes

#: Seconds until new requests pass again: after a part of the door, and after a node, has gone.
PART_S, NODE_S = 3.0, 5.0


def stopped(node: LabNode, pattern: str) -> Act:
    """All processes of a node with this command line hang for a quarter of a minute."""
    return all_of(
        sh(node, f"kill -STOP $(pgrep -f '{pattern}')"), pause(15), sh(node, f"kill -CONT $(pgrep -f '{pattern}')")
    )


#: Programs of the door on a node. In brackets their first letters do not find the shell that looks for them.
DOOR = "^haproxy |^keepalived |[l]itellm --config|[o]ffice.py|[c]anary.py"


def unplugged(node: LabNode) -> Act:
    """Its office cable is out for a quarter of a minute."""
    return all_of(on_lab("cut", f"{node.name}:mgmt"), pause(15), on_lab("heal", f"{node.name}:mgmt"))


def moved(node: LabNode) -> Act:
    """It reboots, and its router gives it another address in the office."""
    return on_lab("move", node.name, str(71 + node.index))


def where_they_were(scene: Scene) -> None:
    """All nodes have their first addresses again, and all serve."""
    for node in known_nodes():
        if not node.address.endswith(f".{11 + node.index}"):
            lab("move", node.name, str(11 + node.index))
    until_all_answer(scene)


def _row(name: str, do: Act, expected: str, passes_s: float = PART_S) -> Fault:
    return Fault(name, do, expected, SCENE, on_head=True, passes_s=passes_s)


MOVES = "the address moves"
ADDRESS = [
    _row("SIGKILL proxy, the address' holder", on_holder(lambda node: sh(node, "docker kill tandem-proxy")), MOVES),
    _row(
        "SIGSTOP proxy, the address' holder",
        on_holder(lambda node: sh(node, "kill -STOP $(pgrep -nf '^haproxy ')")),
        f"{MOVES}; the canary kills it",
    ),
    _row(
        "SIGKILL both LiteLLM, the address' holder",
        on_holder(lambda node: sh(node, "docker kill tandem-litellm-a tandem-litellm-b")),
        MOVES,
        # HAProxy has to notice it first.
        NODE_S,
    ),
    _row(
        "SIGKILL keepalived, the address' holder",
        on_holder(lambda node: sh(node, "docker kill tandem-address")),
        f"{MOVES}, and does not come back",
    ),
    _row(
        "SIGSTOP keepalived, the address' holder, for 15 s",
        on_holder(lambda node: stopped(node, "^keepalived ")),
        "another has it too; then one of them",
    ),
    _row("a freeze of the address' holder for 15 s", on_holder(lambda node: stopped(node, DOOR)), MOVES, NODE_S),
    _row("the address' holder unplugged for 15 s", on_holder(unplugged), MOVES, NODE_S),
    _row("power cut of the address' holder", on_holder(power), f"{MOVES}, and does not come back", NODE_S),
    _row("reboot of the address' holder", on_holder(reboot), f"{MOVES}, and does not come back", NODE_S),
    Fault(
        "another address at a reboot, the address' holder",
        on_holder(moved),
        f"{MOVES}; nobody deploys",
        SCENE,
        on_head=True,
        passes_s=NODE_S,
        afterwards=where_they_were,
    ),
    Fault(
        "another address at a reboot, the node that has not the address",
        on_other(moved),
        "nobody notices",
        SCENE,
        passes_s=PART_S,
        afterwards=where_they_were,
    ),
    *(
        Fault(f"{name} of the node that has not the address", on_other(do), "nobody notices", SCENE, passes_s=PART_S)
        for name, do in (("power cut", power), ("reboot", reboot))
    ),
]
