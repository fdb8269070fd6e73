"""The files that keep a node's rails: addresses, MTU and ARP, with a cable in them and without."""

from __future__ import annotations

from dataclasses import dataclass

from operations.paths import ARP, NETPLAN, NETWORK_MANAGER, NIC_NETDEVS, SYSCTL
from operations.plan.cluster import ring
from operations.plan.cluster.nodes import Node
from operations.plan.config.files import File, render
from operations.plan.config.knobs import PORTS_EACH, Knobs
from operations.wire import Json
from operations.wire.fabric import Links


@dataclass(frozen=True)
class Rail:
    """A netdev as it shall be: its address with the prefix, and a route: (address of another node, over which one)."""

    device: str
    address: str
    route: tuple[str, str] | None = None


def proof_ports(knobs: Knobs) -> list[int]:
    """Ports of the plan's that are tried over the rails before anything is copied: the one that only kernels for the
    head are served on, and the last. On the others an engine may want to listen just then.
    """
    return [knobs.copy_port(0), knobs.cluster_ports + PORTS_EACH - 1]


def inlets(knobs: Knobs, index: int) -> Json:
    """What a node's firewall has to let in (operations/node/network/owner_firewall.py, `tries`). In solo nothing comes
    over a rail. `index`: of the node.
    """
    is_named = knobs.proxy_bind not in ("all", "management")
    return {
        "index": index,
        "subnets": [str(subnet) for subnet in knobs.rail_subnets] if knobs.topology != "solo" else [],
        "ports": [*proof_ports(knobs), knobs.engine_port],
        "door": 0 if is_named and not knobs.proxy_address else knobs.proxy_port,
    }


def rails_of(knobs: Knobs, node: Node) -> list[Rail]:
    """The rails of a node; in a ring with routes to what its neighbours have on their other cables."""
    routes = ring.routes(node, knobs.rail_subnets) if node.ends else {}
    return [
        Rail(device, f"{address}/{subnet.prefixlen}", routes.get(device))
        for device, address, subnet in zip(node.rails, node.rail_addresses, node.subnets, strict=True)
    ]


def strays(knobs: Knobs, node: Node, links: Links) -> list[tuple[str, str]]:
    """(device, address) of what a node has of another wiring: nobody takes an address away from a port that is no rail
    any more, and its subnet would be the way to the others.
    """
    rails, wanted = knobs.rail_subnets, {(each.device, each.address) for each in rails_of(knobs, node)}
    around = ring.subnets_of(node.index, rails) if node.index < ring.SIZE and not ring.check_subnets(rails) else ()
    own = {f"{subnet.network_address + 11 + node.index}/{subnet.prefixlen}" for subnet in (*rails, *around)}
    found = [(device, address) for device, link in links.items() for address in link["addresses"] if address in own]
    return [each for each in found if each not in wanted]


def fabric_files(knobs: Knobs, node: Node) -> tuple[File, ...]:
    """Netplan's file for the rails, NetworkManager's and systemd-sysctl's; none for a node without rails.

    At the other end of a cable is the other node: when that is off, there is no carrier here. An address that went with
    the carrier would take the engine along that listens on it, and at a boot nothing would ever come up. Each renderer
    of netplan has to be told so in its own way: networkd by netplan's `ignore-carrier` (netplan 0.104 and newer), which
    says nothing to NetworkManager, DGX OS's default. Its file lies on every node with rails: where there is no
    NetworkManager nobody reads it, and what a node shall have does not depend on what runs there.

    The two netdevs of a port are one L2, on which Linux answers ARP for any address of its own from any netdev. Half of
    the look-ups then end at the twin: no packet is lost, and one PCIe half carries both rails. No renderer knows these
    settings, systemd-sysctl does: at a boot, and by udev for each netdev that appears. A second port in the same switch
    answers as well, whatever its own address is, so all ports of the NIC are set, known by their names.
    """
    if not node.rails:
        return ()
    rails = rails_of(knobs, node)
    return (
        File(NETPLAN, render("fabric/90-tandem-fabric.yaml.j2", rails=rails, mtu=knobs.fabric_mtu), "600"),
        File(NETWORK_MANAGER, render("fabric/90-tandem-fabric.conf.j2", rails=rails)),
        File(SYSCTL, render("fabric/90-tandem-fabric.sysctl.j2", devices=(NIC_NETDEVS, *node.rails), arp=ARP)),
    )
