"""A machine's wires: taps, whose outer ends are in a bridge as those of a host in namespaces are.

A tap is there while its machine has power. Its machine sees a carrier as qemu is told to show one.
"""

from __future__ import annotations

import fcntl
import os
import struct
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path

from tests.lab.cables import Port
from tests.lab.qemu import command, qmp
from tests.lab.settings import FABRIC_NAMESPACE, LINKS, MANAGEMENT_BRIDGE, LabNode
from tests.lab.shell import LabError, run
from tests.lab.wires import WIRE_MTU

# linux/if_tun.h
_TUNSETIFF, _IFF_TAP, _IFF_NO_PI, _IFF_VNET_HDR = 0x400454CA, 0x0002, 0x1000, 0x4000

TUN = Path("/dev/net/tun")
#: Nobody can see from outside what a machine does with its own end.
IS_WATCHED = False


def prepare(node: LabNode) -> None:
    """Nothing: a tap is made when its machine gets power."""


def open_tap(port: Port) -> int:
    """A wire for a machine that starts now; returns the descriptor for its qemu, and goes when that is closed."""
    try:
        tap = os.open(TUN, os.O_RDWR)
    except OSError as error:
        raise LabError(f"{TUN}: {error.strerror}; a machine's network needs it (modprobe tun)") from None
    name = port.outside.encode()
    fcntl.ioctl(tap, _TUNSETIFF, struct.pack("16sH22x", name, _IFF_TAP | _IFF_NO_PI | _IFF_VNET_HDR))
    # It says nothing of its own in the office either.
    run("sh", "-c", f"echo 1 >/proc/sys/net/ipv6/conf/{port.outside}/disable_ipv6")
    if port.link == "mgmt":
        run("ip", "link", "set", port.outside, "master", MANAGEMENT_BRIDGE, "up")
    else:
        run("ip", "link", "set", port.outside, "netns", FABRIC_NAMESPACE)
        run("ip", "-n", FABRIC_NAMESPACE, "link", "set", port.outside, "mtu", WIRE_MTU, "up")
    os.set_inheritable(tap, True)
    return tap


def awake(nodes: Sequence[LabNode]) -> set[Port]:
    """The ports of machines that have power, and in which the netdev is."""
    found: set[Port] = set()
    for node in nodes:
        with suppress(qmp.Silent):
            found |= {Port(node, link) for link in _devices(node)}
    return found


def show(wanted: Mapping[Port, bool]) -> None:
    """Show the machines these carriers."""
    for node in dict.fromkeys(port.node for port in wanted):
        with suppress(qmp.Silent), qmp.connected(command.monitor(node)) as talk:
            for port, is_up in wanted.items():
                if port.node == node:
                    talk.do("set_link", name=command.backend(port.link), up=is_up)


def take(port: Port) -> None:
    """Take a netdev out of a machine that runs, as a PCIe device goes; wait until it is out."""
    if port.link not in _devices(port.node):
        return
    with qmp.connected(command.monitor(port.node)) as talk:
        talk.do("device_del", id=port.link)
    # The machine's system is asked, and has to let go of it first.
    deadline = time.monotonic() + 60
    while port.link in _devices(port.node):
        if time.monotonic() > deadline:
            raise LabError(f"{port.node.name} does not let go of {port.inside} in 60 s; does its system still run?")
        time.sleep(0.2)


def give(port: Port) -> None:
    """Give it back."""
    if port.link in _devices(port.node):
        return
    with qmp.connected(command.monitor(port.node)) as talk:
        talk.do("device_add", **command.device(port))


def go_dark(node: LabNode) -> None:
    """Nothing: the taps of a machine end with it."""


def _devices(node: LabNode) -> list[str]:
    """The links whose netdevs are in a machine."""
    with qmp.connected(command.monitor(node)) as talk:
        found = talk.do("qom-list", path="/machine/peripheral")
    return [each["name"] for each in found if each["name"] in LINKS]
