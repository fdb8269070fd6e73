"""Tandem's firewall on a node that serves: over which interfaces what is Tandem's can be reached."""

from __future__ import annotations

from collections.abc import Sequence

from operations.paths import ETC, FIREWALL, FIREWALL_SCRIPT, SLICE, folder_of, unit_file
from operations.plan.cluster.nodes import Node
from operations.plan.cluster.served_model import ServedModel
from operations.plan.config.files import File, as_is, render
from operations.plan.config.knobs import Knobs
from operations.plan.services.contract import Contract, Removal, Start
from operations.plan.services.ports import listens
from operations.plan.services.service import SPEC, Program, seal_program

#: Where sshd listens unless it was told otherwise.
SSH_PORT = 22


def firewall(knobs: Knobs, node: Node, count: int, models: Sequence[ServedModel]) -> Program:
    """The table of nftables for a node of `count` with a part of these models, and the unit that loads it before the
    network is up.

    It drops, of what comes neither over a rail nor from the node itself: what is meant for the fabric's addresses; what
    is meant for a port that the plan gives out, but the proxy's; and what is meant for a socket of the engine's, on
    whatever port, known by the control group of its container. All else is the owner's and is let by.

    Beside it are routes, so that neither depends on a netdev, which may go with its cable: the node's addresses of the
    fabric are its own, and what is meant for the fabric leaves over no other network.

    In solo there are no rails in the plan: the engine is reached from its own node alone, and what lies on the fabric's
    addresses, if anything, is not Tandem's.
    """
    folder = folder_of(FIREWALL)
    group = SLICE if node.engine_group else ""
    rules = render(
        "firewall/tandem.nft.j2",
        spec=SPEC,
        inside=[f'"{name}"' for name in ("lo", *node.rails)],
        ssh=sorted({SSH_PORT, node.ssh_port}),
        ports=_ranges(_given(knobs, node, count, models)),
        group=group,
        # All of them: in a ring the other nodes' cables have parts that this one has not.
        subnets=[str(subnet) for subnet in knobs.rail_subnets if node.subnets],
    )
    return seal_program(
        FIREWALL,
        [
            File(f"{folder}/tandem.nft", rules),
            File(f"{folder}/routes", _routes(knobs, node)),
            File(FIREWALL_SCRIPT, as_is("firewall/firewall.sh"), "755"),
            File(
                unit_file(FIREWALL),
                render("firewall/tandem-firewall.service.j2", etc=ETC, group=group),
            ),
        ],
    )


def _routes(knobs: Knobs, node: Node) -> str:
    """For firewall.sh: a line each. The kernel takes an address for its own by such a route as by that of a netdev, and
    whoever listens on it goes on.
    """
    own = [f"local {address} dev lo table local\n" for address in node.rail_addresses]
    return "".join([*own, *(f"unreachable {subnet}\n" for subnet in knobs.rail_subnets if node.subnets)])


def _given(knobs: Knobs, node: Node, count: int, models: Sequence[ServedModel]) -> set[int]:
    """Ports that the plan gives out on this node, without the proxy's, which is the door."""
    ports = set(listens(node, knobs, count, models)) - {knobs.proxy_port}
    for each in models:
        if each.knobs.topology == "cluster" and each.knobs.executor == "ray":
            ports.update(each.knobs.ray_worker_ports)
    return ports


def _ranges(ports: set[int]) -> list[str]:
    """`8001`, `26000-26009`: neighbours together, since nft lists them so."""
    runs: list[list[int]] = []
    for port in sorted(ports):
        if runs and runs[-1][1] == port - 1:
            runs[-1][1] = port
        else:
            runs.append([port, port])
    return [str(first) if first == last else f"{first}-{last}" for first, last in runs]


SERVICE = Contract(
    (FIREWALL,),
    lambda its: [firewall(its.knobs, its.node, its.count, its.here)],
    Start.OWN_STEP,
    removal=Removal.LAST,
    differs=lambda found: found["firewall"]["problem"],
)
