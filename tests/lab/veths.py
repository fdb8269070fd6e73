"""The wires of hosts booted in namespaces: a pair of interfaces each, one end in the host's namespace."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence

from operations.paths import ARP
from tests.lab.cables import Port
from tests.lab.settings import FABRIC_NAMESPACE, LINKS, MANAGEMENT_BRIDGE, LabNode
from tests.lab.shell import run, succeeds
from tests.lab.spaces import ensure
from tests.lab.wires import WIRE_MTU

#: A namespace tells what happens to its interfaces.
IS_WATCHED = True


def prepare(node: LabNode) -> None:
    """A node's namespace and all its wires."""
    ensure(node.namespace)
    for link in LINKS:
        give(Port(node, link))


def awake(nodes: Sequence[LabNode]) -> set[Port]:
    """The ports that a node has up."""
    own = {node: _devices_up(node.namespace) for node in nodes}
    ports = [Port(node, link) for node in nodes for link in LINKS]
    return {port for port in ports if own[port.node].get(port.inside, False)}


def show(wanted: Mapping[Port, bool]) -> None:
    """Set the outer ends: a veth has carrier while both its ends are up."""
    outer = {"mgmt": _devices_up(""), "rails": _devices_up(FABRIC_NAMESPACE)}
    for port, shall_be in wanted.items():
        is_up = outer["mgmt" if port.link == "mgmt" else "rails"].get(port.outside)
        if is_up is not None and is_up != shall_be:
            run("ip", *_outside(port), "link", "set", port.outside, "up" if shall_be else "down")


def take(port: Port) -> None:
    """Its other end goes with it."""
    run("ip", "-n", port.node.namespace, "link", "del", port.inside, check=False)


def give(port: Port) -> None:
    """Down, without address, under an index of its own."""
    if succeeds("ip", "-n", port.node.namespace, "link", "show", port.inside):
        return
    made = ("link", "add", port.outside, "type", "veth", "peer", "name", port.inside, "netns", port.node.namespace)
    run("ip", *made)
    if port.link == "mgmt":
        run("ip", "link", "set", port.outside, "master", MANAGEMENT_BRIDGE)
        return
    run("ip", "link", "set", port.outside, "netns", FABRIC_NAMESPACE)
    run("ip", "-n", FABRIC_NAMESPACE, "link", "set", port.outside, "mtu", WIRE_MTU)


def go_dark(node: LabNode) -> None:
    """Its ends are down: the namespace outlives the node."""
    for device in LINKS.values():
        run("ip", "-n", node.namespace, "link", "set", device, "down", check=False)


def begin_anew(node: LabNode) -> None:
    """What a reboot does to NICs (down, no address, MTU 1500, the kernel's own settings), to nftables (no table) and to
    routes (none). The namespace outlives the node, so it is done here.
    """
    go_dark(node)
    for routes in (("type", "unreachable"), ("table", "local", "dev", "lo")):
        run("ip", "-n", node.namespace, "route", "flush", *routes, check=False)
    # Its own come back.
    for state in ("down", "up"):
        run("ip", "-n", node.namespace, "link", "set", "lo", state)
    run("nsenter", f"--net=/run/netns/{node.namespace}", "nft", "flush", "ruleset")
    for device in LINKS.values():
        run("ip", "-n", node.namespace, "addr", "flush", "dev", device, check=False)
        run("ip", "-n", node.namespace, "link", "set", device, "mtu", "1500", check=False)
        settings = " ".join(f"/proc/sys/net/ipv4/conf/{device}/{name}" for name in ARP)
        run("nsenter", f"--net=/run/netns/{node.namespace}", "sh", "-c", f"echo 0 | tee {settings}")


def _devices_up(namespace: str) -> dict[str, bool]:
    """Whether each interface of a namespace is up (not: has carrier); nothing for a namespace that is not there."""
    where = ["-n", namespace] if namespace else []
    links = json.loads(run("ip", *where, "-j", "link", check=False) or "[]")
    return {each["ifname"]: "UP" in each["flags"] for each in links}


def _outside(port: Port) -> list[str]:
    return [] if port.link == "mgmt" else ["-n", FABRIC_NAMESPACE]
