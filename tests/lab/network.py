"""The lab's wires: a management bridge on this machine; the rails' switches or cables in a namespace of their own."""

from __future__ import annotations

import fcntl
import json
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from tests.lab import desk, spaces, veths
from tests.lab.cables import Port, bridges, far_ends, shall_be_up
from tests.lab.qemu import taps
from tests.lab.settings import (
    FABRIC_NAMESPACE,
    HOME,
    LINKS,
    MACHINES,
    MANAGEMENT_BRIDGE,
    MANAGEMENT_NET,
    PREFIX,
    LabNode,
    known_nodes,
)
from tests.lab.shell import LabError, run, succeeds
from tests.lab.wires import WIRE_MTU, Wires

_KINDS: dict[str, Wires] = {"namespaces": veths, "vm": taps}
#: What the nodes hang on.
WIRES = _KINDS[MACHINES]
#: LLDP passes a cable; a bridge would keep it to itself.
_FORWARD_LLDP = "0x4000"
#: A file for each port whose cable is pulled.
CUTS = HOME / "cuts"
_LOCK = HOME / "wires.lock"


def wire_up(nodes: list[LabNode]) -> None:
    """Make bridges, namespaces and links as the desk has them; cables that were cut are whole again.

    What joined the rails in another wiring is removed, the nodes may run meanwhile.
    """
    if not succeeds("ip", "link", "show", MANAGEMENT_BRIDGE):
        run("ip", "link", "add", MANAGEMENT_BRIDGE, "type", "bridge")
        run("ip", "addr", "add", f"{MANAGEMENT_NET}.1/24", "dev", MANAGEMENT_BRIDGE)
    run("ip", "link", "set", MANAGEMENT_BRIDGE, "up")
    spaces.ensure(FABRIC_NAMESPACE)
    # A cable says nothing of its own, and nobody in it answers a ping to all.
    quiet = "echo 1 | tee /proc/sys/net/ipv6/conf/all/disable_ipv6 /proc/sys/net/ipv6/conf/default/disable_ipv6"
    run("nsenter", f"--net=/run/netns/{FABRIC_NAMESPACE}", "sh", "-c", quiet)
    for node in nodes:
        WIRES.prepare(node)
    _join(bridges(desk.remembered().wiring, nodes))
    forget_cuts()
    settle()


def tear_down(nodes: list[LabNode]) -> None:
    """Remove every namespace and bridge of the lab; links go with their namespaces."""
    for namespace in [*(node.namespace for node in nodes), FABRIC_NAMESPACE, *leftover_namespaces()]:
        if namespace in spaces.names():
            run("ip", "netns", "del", namespace)
    for node in nodes:
        run("ip", "link", "del", node.host_side("mgmt"), check=False)
    if succeeds("ip", "link", "show", MANAGEMENT_BRIDGE):
        run("ip", "link", "del", MANAGEMENT_BRIDGE)
    forget_cuts()


def leftover_namespaces() -> list[str]:
    """Namespaces that carry the lab's prefix."""
    return [name for name in spaces.names() if name.startswith(f"{PREFIX}-")]


def set_link(node: LabNode, link: str, *, up: bool) -> None:
    """Pull a cable, or put it back: a node has no carrier at either end of one, and at its own where a switch is."""
    port = Port(node, link) if link == "mgmt" else _rail(node, link)
    CUTS.mkdir(exist_ok=True)
    if up:
        for each in (port, _far_ends().get(port, port)):
            (CUTS / str(each)).unlink(missing_ok=True)
    else:
        (CUTS / str(port)).touch()
    settle()


def take(node: LabNode, link: str) -> None:
    """Take a rail's netdev away: a ConnectX-7's PCIe link goes down when its cable is pulled, and its netdevs with it.
    The node at the other end loses its carrier.
    """
    port = _rail(node, link)
    with _alone():
        WIRES.take(port)
    settle()


def give(node: LabNode, link: str) -> None:
    """Give it back as a new device: down, without address, under another index."""
    port = _rail(node, link)
    with _alone():
        WIRES.give(port)
        plug(port)
    settle()


def plug(port: Port) -> None:
    """Join a rail's outer end to what its cable or switch is made of, if anything is plugged in."""
    for bridge in (name for name, ports in _bridges().items() if port in ports):
        run("ip", "-n", FABRIC_NAMESPACE, "link", "set", port.outside, "master", bridge)


def forget_cuts() -> None:
    """No cable is pulled."""
    for marker in CUTS.glob("*"):
        marker.unlink(missing_ok=True)


def settle() -> None:
    """Set every outer end to what it shall be. Whoever changes something calls it; the watcher does for the nodes."""
    with _alone():
        nodes, far, plugged = known_nodes(), _far_ends(), _plugged()
        cut = {port for port in _ports(nodes) if (CUTS / str(port)).exists()}
        awake = dict.fromkeys(WIRES.awake(nodes), True)
        WIRES.show(
            {
                port: shall_be_up(port, port in plugged or port.link == "mgmt", far.get(port), cut, awake)
                for port in _ports(nodes)
            }
        )


def hold_rails(node: LabNode, rate: str) -> None:
    """Let no more than `rate` (tc's words: 100mbit) through each rail of a node, either way; empty: what it can."""
    for port in [port for port in _plugged() if port.node == node]:
        for namespace, device in ((node.namespace, port.inside), (FABRIC_NAMESPACE, port.outside)):
            run("tc", "-n", namespace, "qdisc", "del", "dev", device, "root", check=False)
            if rate:
                shape = ("tbf", "rate", rate, "burst", "1mb", "latency", "400ms")
                run("tc", "-n", namespace, "qdisc", "add", "dev", device, "root", *shape)


def go_dark(node: LabNode) -> None:
    """What losing its power does to a node's NICs: they are down, and the other end of a cable has no carrier."""
    WIRES.go_dark(node)
    settle()


def _join(wanted: dict[str, list[Port]]) -> None:
    """Exactly these bridges in the fabric's namespace, each with its ports."""
    there = json.loads(run("ip", "-n", FABRIC_NAMESPACE, "-j", "link", "show", "type", "bridge") or "[]")
    for name in {each["ifname"] for each in there if each} - set(wanted):
        run("ip", "-n", FABRIC_NAMESPACE, "link", "del", name)
    for name, ports in wanted.items():
        if not succeeds("ip", "-n", FABRIC_NAMESPACE, "link", "show", name):
            run("ip", "-n", FABRIC_NAMESPACE, "link", "add", name, "type", "bridge")
            run("ip", "-n", FABRIC_NAMESPACE, "link", "set", name, "type", "bridge", "group_fwd_mask", _FORWARD_LLDP)
            run("ip", "-n", FABRIC_NAMESPACE, "link", "set", name, "mtu", WIRE_MTU, "up")
        for port in ports:
            # A machine that is off has none.
            if succeeds("ip", "-n", FABRIC_NAMESPACE, "link", "show", port.outside):
                run("ip", "-n", FABRIC_NAMESPACE, "link", "set", port.outside, "master", name)


def _ports(nodes: list[LabNode]) -> list[Port]:
    return [Port(node, link) for node in nodes for link in LINKS]


def _rail(node: LabNode, link: str) -> Port:
    """A rail that something is plugged into."""
    if link not in LINKS:
        raise LabError(f"no link `{link}`: the links of a node are {', '.join(LINKS)}")
    if (port := Port(node, link)) not in _plugged():
        raise LabError(
            f"nothing is plugged into {port}: with WIRING={desk.remembered().wiring} a node has {_rails(node)}"
        )
    return port


def _bridges() -> dict[str, list[Port]]:
    return bridges(desk.remembered().wiring, known_nodes())


def _plugged() -> list[Port]:
    """The rails that something is plugged into."""
    return [port for ports in _bridges().values() for port in ports]


def _rails(node: LabNode) -> str:
    return " and ".join(sorted(port.link for port in _plugged() if port.node == node)) or "none"


def _far_ends() -> dict[Port, Port]:
    return far_ends(desk.remembered().wiring, known_nodes())


@contextmanager
def _alone() -> Iterator[None]:
    """One at a time looks and sets: the slower of two would set what is not so any more."""
    with Path(_LOCK).open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield
