"""The files that keep a node's rails: addresses and MTU, with a cable in them and without."""

from __future__ import annotations

from operations.paths import NETPLAN, NETWORK_MANAGER
from operations.plan.files import File, render
from operations.plan.knobs import Knobs
from operations.plan.nodes import Node


def fabric_files(knobs: Knobs, node: Node) -> tuple[File, ...]:
    """Netplan's file for the rails, and NetworkManager's; none for a node without rails.

    At the other end of a cable is the other node: when that is off, there is no carrier here. An address that went with
    the carrier would take the engine along that listens on it, and at a boot nothing would ever come up. Each renderer
    of netplan has to be told so in its own way: networkd by netplan's `ignore-carrier` (netplan 0.104 and newer), which
    says nothing to NetworkManager, DGX OS's default. Its file lies on every node with rails: where there is no
    NetworkManager nobody reads it, and what a node shall have does not depend on what runs there.
    """
    if not node.rails:
        return ()
    rails = [
        {"device": device, "address": f"{address}/{subnet.prefixlen}"}
        for device, address, subnet in zip(node.rails, node.rail_addresses, node.subnets, strict=True)
    ]
    return (
        File(NETPLAN, render("fabric/90-tandem-fabric.yaml.j2", rails=rails, mtu=knobs.fabric_mtu), "600"),
        File(NETWORK_MANAGER, render("fabric/90-tandem-fabric.conf.j2", rails=rails)),
    )
