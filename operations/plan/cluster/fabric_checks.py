"""What a survey of a node says against its fabric: rails, the login, netplan, the owner's firewall, RDMA. Pure."""

from __future__ import annotations

import re
from collections.abc import Sequence
from fnmatch import fnmatchcase
from ipaddress import IPv4Interface

from operations.plan.cluster import nccl
from operations.plan.cluster.nodes import Node, on_fabric
from operations.plan.cluster.served_model import ServedModel
from operations.plan.config.kind import Findings, Kind
from operations.plan.config.knobs import Knobs
from operations.wire.fabric import Link, NetplanEntry
from operations.wire.look import Survey

#: Of netdevs that can do RDMA.
RDMA_DRIVER = "mlx5_core"

#: A rail without a cable may have no interface at all.
_PLUG = "plug the cable in at both ends: without one its interfaces may be gone"
_NOTHING = "nothing goes over it"
RAILS_GONE = Kind(
    "rail-gone",
    "these interfaces are gone: {rails}",
    "the rails of the plan that serves are not here any more",
    "plug the cable in at both ends, or into another port at both",
)
RAIL_MISSING = Kind(
    "rail-missing",
    "there is no interface {rail}",
    _NOTHING,
    f"{_PLUG}; or let `fabric_interfaces` be of those that are here: {{here}}",
)
RAIL_NO_CARRIER = Kind(
    "rail-no-carrier",
    "the rail {rail} has no carrier",
    _NOTHING,
    "plug the cable in at both ends (a link that is down at the other end looks the same: is that node on?), or name "
    "other `fabric_interfaces`; with carrier: {live}",
)
RAIL_DOWN = Kind("rail-down", "the rail {rail} is down", _NOTHING, "on {node}: sudo ip link set {rail} up")
RAIL_NO_NIC = Kind(
    "rail-no-connectx",
    "no interface of a ConnectX is here, and a fabric needs one",
    "ranks and other nodes' engines can't be reached",
    f"{_PLUG}; if they stay away, reboot, and look whether `lspci -d 15b3:` lists it",
)
RAILS_TOO_MANY = Kind(
    "rail-too-many",
    "a fabric has two rails, here are {count}: {rails}",
    remedy="name the two interfaces in the inventory: `fabric_interfaces`",
)
LOGIN_BY_RAIL = Kind(
    "login-by-rail",
    "the login goes to {address}, an address of the rail `{rail}`: a deploy sets those anew",
    remedy="name its address in the office's network: `ssh_hostname` in inventory.py",
)
LOGIN_IN_SUBNET = Kind(
    "login-in-rail-subnet",
    "the interface of the login has {addresses}, which is in `fabric_subnets`",
    "Tandem's firewall drops what comes for a rail's subnet over another interface",
    "set `fabric_subnets` in group_data/all.py to others: they are the rails' alone",
)
NETPLAN_UNREAD = Kind(
    "netplan-unread",
    "{file} can't be looked into: {problem}",
    "it may give a rail another address",
    "put that right: netplan reads it too",
)
NETPLAN_GIVES = Kind(
    "netplan-gives-too",
    "{file} gives `{rail}` {what} too",
    remedy="remove `{rail}` from it: netplan would keep both, and ranks could meet on the wrong one",
)
FIREWALL_SHUT = Kind(
    "firewall-shuts-rail",
    "{by} lets no connection in over {rails}: ranks and copies could not reach this node",
    remedy="{remedy}",
    general="let the rails in by a rule of that firewall, such as `sudo ufw allow in on {rails}`",
)
NO_RDMA_DEVICE = Kind(
    "rdma-no-device",
    "no RDMA device is on {rails}: NCCL would speak TCP, or use half of the port",
    "every token is late by that, and to NCCL it is no error",
    "sudo modprobe mlx5_ib, or reboot: `rdma link` has to name them; where TCP is meant, set NCCL_IB_DISABLE to "
    "'1' in the recipe's env",
)


def check(node: Node, survey: Survey, models: Sequence[ServedModel], knobs: Knobs) -> Findings:
    """What stands in the way of a node's fabric. `models`: those with a part on it."""
    yield from _rails(node, survey, knobs)
    yield from _firewall(node, survey, knobs)
    yield from _rdma(node, survey, models)


def _rails(node: Node, survey: Survey, knobs: Knobs) -> Findings:
    if knobs.topology == "solo":
        return
    links = survey["state"]["links"]
    # Only a link that is up knows its carrier. On a fresh node rails may be down, and the deploy itself sets them up.
    # Those that have their address have been set up before: nothing is left to do that would do it again.
    live = [name for name in links if links[name]["up"] and links[name]["carrier"]]
    # Those of the rules in force: without them another port would look like the one that is meant.
    gone = [each for each in survey["state"]["firewall"].get("inside", []) if each != "lo" and each not in links]
    lost = gone if not set(node.rails) & {name for name in links if links[name]["carrier"]} else []
    if lost:
        yield RAILS_GONE.said(rails=", ".join(lost))
    for place, rail in enumerate(() if lost else node.rails):
        if node.ends and not node.ends[place]:
            # The node at its other end is not needed, or it would have been missed.
            continue
        if rail not in links:
            yield RAIL_MISSING.said(rail=rail, here=", ".join(links) or "none, as where no cable is in")
        elif links[rail]["up"] and not links[rail]["carrier"]:
            yield RAIL_NO_CARRIER.said(rail=rail, live=", ".join(live) or "none")
        elif not links[rail]["up"] and on_fabric(links[rail]["addresses"], node.subnets):
            yield RAIL_DOWN.said(rail=rail, node=node.name)
    if survey["came_in_by"] in node.rails:
        yield LOGIN_BY_RAIL.said(address=node.management, rail=survey["came_in_by"])
    elif taken := _of_the_rails(node, survey, knobs):
        yield LOGIN_IN_SUBNET.said(addresses=" and ".join(taken))
    if not node.rails and not lost:
        yield RAIL_NO_NIC.said()
    elif len(node.rails) > 2 and not node.ends:
        yield RAILS_TOO_MANY.said(count=len(node.rails), rails=", ".join(node.rails))
    for entry in survey["netplan"]:
        if entry.get("unread"):
            yield NETPLAN_UNREAD.said(file=entry["file"], problem=entry["unread"])
        for rail in node.rails if entry.get("gives") else ():
            if is_for(entry, rail, links.get(rail)):
                yield NETPLAN_GIVES.said(file=entry["file"], rail=rail, what=entry["gives"])


def _of_the_rails(node: Node, survey: Survey, knobs: Knobs) -> list[str]:
    """IPv4 addresses of the login's interface that are in a subnet of the rails. Both subnets count, with one rail too:
    the firewall drops what comes for either over another interface.
    """
    office = survey.get("office") or {}
    beside = [each for each, device in office.get("addresses", {}).items() if device == office["device"]]
    # The login may go to a name, or by IPv6.
    own = dict.fromkeys([*re.findall(r"^[\d.]+$", node.management), *beside])
    return [each for each in own if on_fabric([each], knobs.rail_subnets)]


def _firewall(node: Node, survey: Survey, knobs: Knobs) -> Findings:
    """What would keep out the other nodes. A port that is no rail may be shut."""
    # More rails than subnets are refused beside this.
    rails = dict(zip(node.rails, node.subnets, strict=False)) if knobs.topology != "solo" else {}
    shut = [
        each
        for rail, subnet in rails.items()
        for each in survey.get("shut", [])
        if each["device"] == rail and not each["is_door"] and subnet.subnet_of(IPv4Interface(each["own"]).network)
    ]
    if shut:
        over = ", ".join(f"`{each['device']}`" for each in shut)
        remedy = " && ".join(each["remedy"] for each in shut)
        yield FIREWALL_SHUT.said(by=shut[0]["by"], rails=over, remedy=remedy)


def _rdma(node: Node, survey: Survey, models: Sequence[ServedModel]) -> Findings:
    """Rails of a cluster's rank that can do RDMA and have no device for it: all ranks would send by sockets, or by half
    of the bandwidth.
    """
    wants = [each for each in models if nccl.may_use_rdma(each.recipe, each.knobs)]
    if not wants:
        return
    links = survey["state"]["links"]
    without = [rail for rail in node.rails if rail in links and not links[rail]["rdma"]]
    lacking = [rail for rail in without if links[rail]["driver"] == RDMA_DRIVER]
    others = [rank.name for each in wants for rank in each.nodes if rank.rdma and rank.name != node.name]
    if lacking or (without and others and not node.rdma):
        rails = " and ".join(f"`{rail}`" for rail in lacking or without)
        yield NO_RDMA_DEVICE.said(rails=rails + (f", {others[0]} has them" if others else ""))


def is_for(entry: NetplanEntry, rail: str, link: Link | None) -> bool:
    """Whether an entry of netplan's is about this interface: by its name, or by all that its `match` asks for."""
    match = entry.get("match")
    if not match:
        return bool(entry["device"] == rail)
    mac, has = (link["mac"], link["driver"]) if link else ("", "")
    drivers = match.get("driver", [])
    drivers = [drivers] if isinstance(drivers, str) else drivers
    return (
        fnmatchcase(rail, match.get("name", "*"))
        and match.get("macaddress", mac).lower() == mac.lower()
        and (not drivers or any(fnmatchcase(has, driver) for driver in drivers))
    )
