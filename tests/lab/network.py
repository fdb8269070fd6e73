"""The lab's wires: one management bridge on this machine, one switch per rail in a namespace of its own."""

from __future__ import annotations

from tests.lab.settings import (
    FABRIC_NAMESPACE,
    LINKS,
    MANAGEMENT_BRIDGE,
    MANAGEMENT_NET,
    LabNode,
)
from tests.lab.shell import LabError, run, succeeds

#: A jumbo-capable switch; the node's own end keeps 1500 until the deploy raises it.
SWITCH_MTU = "9000"


def wire_up(nodes: list[LabNode]) -> None:
    """Make bridges, namespaces and links that are not there yet."""
    if not succeeds("ip", "link", "show", MANAGEMENT_BRIDGE):
        run("ip", "link", "add", MANAGEMENT_BRIDGE, "type", "bridge")
        run("ip", "addr", "add", f"{MANAGEMENT_NET}.1/24", "dev", MANAGEMENT_BRIDGE)
    run("ip", "link", "set", MANAGEMENT_BRIDGE, "up")
    _namespace(FABRIC_NAMESPACE)
    for rail in ("rail0", "rail1"):
        if not succeeds("ip", "-n", FABRIC_NAMESPACE, "link", "show", rail):
            run("ip", "-n", FABRIC_NAMESPACE, "link", "add", rail, "type", "bridge")
            run("ip", "-n", FABRIC_NAMESPACE, "link", "set", rail, "mtu", SWITCH_MTU, "up")
    for node in nodes:
        _namespace(node.namespace)
        for link in LINKS:
            _plug_in(node, link)


def tear_down(nodes: list[LabNode]) -> None:
    """Remove every namespace and bridge of the lab; links go with their namespaces."""
    for namespace in [*(node.namespace for node in nodes), FABRIC_NAMESPACE, *leftover_namespaces()]:
        if namespace in _namespaces():
            run("ip", "netns", "del", namespace)
    for node in nodes:
        run("ip", "link", "del", node.host_side("mgmt"), check=False)
    if succeeds("ip", "link", "show", MANAGEMENT_BRIDGE):
        run("ip", "link", "del", MANAGEMENT_BRIDGE)


def leftover_namespaces() -> list[str]:
    """Namespaces that carry the lab's prefix."""
    return [name for name in _namespaces() if name.startswith("tandem-")]


def set_link(node: LabNode, link: str, *, up: bool) -> None:
    """Pull a cable (the node sees no carrier), or put it back."""
    if link not in LINKS:
        raise LabError(f"no link `{link}`: the links of a node are {', '.join(LINKS)}")
    run("ip", *_switch_side(link), "link", "set", node.host_side(link), "up" if up else "down")


def set_links(node: LabNode, *, up: bool) -> None:
    """All cables of a node that has any."""
    for link in LINKS:
        if succeeds("ip", *_switch_side(link), "link", "show", node.host_side(link)):
            set_link(node, link, up=up)


def hold_rails(node: LabNode, rate: str) -> None:
    """Let no more than `rate` (tc's words: 100mbit) through each rail of a node, either way; empty: what it can."""
    for link in ("rail0", "rail1"):
        ends = ((node.namespace, LINKS[link]), (FABRIC_NAMESPACE, node.host_side(link)))
        for namespace, device in ends:
            run("tc", "-n", namespace, "qdisc", "del", "dev", device, "root", check=False)
            if rate:
                shape = ("tbf", "rate", rate, "burst", "1mb", "latency", "400ms")
                run("tc", "-n", namespace, "qdisc", "add", "dev", device, "root", *shape)


def forget_addresses(node: LabNode) -> None:
    """What a reboot does to a NIC: no address, MTU 1500. The namespace outlives the node, so it is done here."""
    for device in LINKS.values():
        run("ip", "-n", node.namespace, "addr", "flush", "dev", device, check=False)
        run("ip", "-n", node.namespace, "link", "set", device, "mtu", "1500", "down", check=False)


def _plug_in(node: LabNode, link: str) -> None:
    inside, outside = LINKS[link], node.host_side(link)
    if succeeds("ip", "-n", node.namespace, "link", "show", inside):
        return
    run("ip", "link", "add", outside, "type", "veth", "peer", "name", inside, "netns", node.namespace)
    if link == "mgmt":
        run("ip", "link", "set", outside, "master", MANAGEMENT_BRIDGE, "up")
        return
    run("ip", "link", "set", outside, "netns", FABRIC_NAMESPACE)
    run("ip", "-n", FABRIC_NAMESPACE, "link", "set", outside, "mtu", SWITCH_MTU, "master", link, "up")


def _switch_side(link: str) -> list[str]:
    return [] if link == "mgmt" else ["-n", FABRIC_NAMESPACE]


def _namespace(name: str) -> None:
    if name not in _namespaces():
        run("ip", "netns", "add", name)
        run("ip", "-n", name, "link", "set", "lo", "up")


def _namespaces() -> list[str]:
    return [line.split()[0] for line in run("ip", "netns", "list").splitlines() if line.strip()]
