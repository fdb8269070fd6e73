"""The netdevs of a node: those that can be rails, and the one of a login."""

from __future__ import annotations

import json
import os
import re
from pathlib import Path

from operations.node.commands import output, read
from operations.paths import ARP
from operations.wire.fabric import Links, Office

NET = Path("/sys/class/net")
CONF = Path("/proc/sys/net/ipv4/conf")
INFINIBAND = Path("/sys/class/infiniband")
#: Drivers of what can be a rail by its name: a ConnectX's, a virtual machine's, and none where none shows (a veth).
RAIL_DRIVERS = ("mlx5_core", "virtio_net", "")
#: A multi-port NIC's names end in port and port name, `f0np0`: the ConnectX-7 of a GB10 has them, its 10 GbE has not.
PORT_NAME = re.compile(r"^en[pP]\d+(p\d+)?s\d+f\d+np\d+$")


def links() -> Links:
    """Interfaces that can be rails, by name: named like a port of a ConnectX, with one of RAIL_DRIVERS."""
    addresses = {link["ifname"]: link for link in json.loads(output("ip", "-j", "addr") or "[]")}
    by_device = routes()
    found: Links = {}
    for folder in sorted(NET.iterdir()):
        driver = os.path.basename(os.path.realpath(folder / "device/driver")) if (folder / "device").exists() else ""
        if driver not in RAIL_DRIVERS or not PORT_NAME.match(folder.name):
            continue
        link = addresses.get(folder.name, {})
        found[folder.name] = {
            "carrier": read(folder / "carrier") == "1",
            "up": "UP" in link.get("flags", []),
            "mtu": link.get("mtu", 0),
            "addresses": [f"{a['local']}/{a['prefixlen']}" for a in link.get("addr_info", []) if a["family"] == "inet"],
            "routes": by_device.get(folder.name, []),
            "mac": link.get("address", ""),
            "driver": driver,
            "rdma": _rdma(folder),
            "arp": {name: read(CONF / folder.name / name) for name in ARP},
        }
    return found


def _rdma(netdev: Path) -> str | None:
    """The RDMA device of a netdev's PCIe function; or one made over it in software, which says the netdev itself
    (Linux, drivers/infiniband/sw/rxe: `parent`).
    """
    found = [path.name for path in (netdev / "device/infiniband").glob("*")]
    found = found or [path.parent.name for path in INFINIBAND.glob("*/parent") if read(path) == netdev.name]
    return min(found, default=None)


def routes() -> dict[str, list[str]]:
    """What leads over another node, by netdev: `192.168.177.141 via 192.168.177.77`."""
    found: dict[str, list[str]] = {}
    for each in json.loads(output("ip", "-j", "route") or "[]"):
        if "gateway" in each and "dev" in each:
            found.setdefault(each["dev"], []).append(f"{each['dst']} via {each['gateway']}")
    return found


def office(address: str) -> Office:
    """The interface that has an IPv4 address of this node: `device`, `address` with its prefix; `macs` and `addresses`
    of all of this node's interfaces, each of which answers for it. Empty: there is none.
    """
    links = json.loads(output("ip", "-j", "addr") or "[]")
    infos = [(link, info) for link in links for info in link.get("addr_info", []) if info["family"] == "inet"]
    for link, info in infos:
        if info["local"] == address and link["ifname"] != "lo":
            return {
                "device": link["ifname"],
                "address": f"{info['local']}/{info['prefixlen']}",
                "macs": sorted({each["address"] for each in links if each.get("address")}),
                "addresses": {each["local"]: where["ifname"] for where, each in infos},
            }
    return {}


def device_of(address: str) -> str:
    """The interface that has an address of this node, IPv4 or IPv6 (perhaps with a zone); empty: none has."""
    plain, _, zone = address.partition("%")
    for link in json.loads(output("ip", "-j", "addr") or "[]"):
        if zone in ("", link["ifname"]) and any(info["local"] == plain for info in link.get("addr_info", [])):
            return str(link["ifname"])
    return ""


def ipv4_beside(address: str) -> str:
    """For an IPv6 address of this node (perhaps with a zone, `fe80::1%eth0`) an IPv4 address of the same interface,
    which clients can use; the address itself where it is IPv4, or where there is no other.
    """
    plain, _, zone = address.partition("%")
    for link in json.loads(output("ip", "-j", "addr") or "[]") if ":" in plain else []:
        infos = link.get("addr_info", [])
        if zone in ("", link.get("ifname")) and any(info["local"] == plain for info in infos):
            return next((info["local"] for info in infos if info["family"] == "inet"), address)
    return address
