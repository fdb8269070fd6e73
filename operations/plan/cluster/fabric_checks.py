"""What a survey of a node says against its fabric: rails, the login, netplan, the owner's firewall, RDMA. Pure."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from fnmatch import fnmatchcase
from ipaddress import IPv4Interface

from operations.plan.cluster import nccl
from operations.plan.cluster.nodes import Node, on_fabric
from operations.plan.cluster.served_model import ServedModel
from operations.plan.config.knobs import Knobs
from operations.wire.fabric import Link, NetplanEntry
from operations.wire.look import Survey

#: Of netdevs that can do RDMA.
RDMA_DRIVER = "mlx5_core"

#: (problem, remedy) of each.
Findings = Iterator[tuple[str, str]]


def check(node: Node, survey: Survey, models: Sequence[ServedModel], knobs: Knobs) -> Findings:
    """What stands in the way of a node's fabric: (problem, remedy) of each. `models`: those with a part on it."""
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
        remedy = "plug the cable in at both ends, or into another port at both"
        yield f"{' and '.join(lost)} {'is' if len(lost) == 1 else 'are'} gone", remedy
    for place, rail in enumerate(() if lost else node.rails):
        if node.ends and not node.ends[place]:
            # The node at its other end is not needed, or it would have been missed.
            continue
        if rail not in links:
            there = ", ".join(links) or "none, as where no cable is in"
            yield (
                f"there is no interface `{rail}`",
                "plug the cable in at both ends: without one its interfaces may be gone; "
                f"or let `fabric_interfaces` be of those that are here: {there}",
            )
        elif links[rail]["up"] and not links[rail]["carrier"]:
            yield (
                f"no carrier on `{rail}`",
                "plug the cable in at both ends (a link that is down at the other end looks the same there), or name "
                f"other `fabric_interfaces`; with carrier: {', '.join(live) or 'none'}",
            )
        elif not links[rail]["up"] and on_fabric(links[rail]["addresses"], node.subnets):
            yield f"`{rail}` is down", f"on {node.name}: sudo ip link set {rail} up"
    if survey["came_in_by"] in node.rails:
        yield (
            f"the login goes to {node.management}, an address of the rail `{survey['came_in_by']}`: a deploy sets "
            "those anew",
            "name its address in the office's network: `ssh_hostname` in inventory.py",
        )
    elif taken := _of_the_rails(node, survey, knobs):
        yield (
            f"the interface of the login has {' and '.join(taken)}, which is in `fabric_subnets`",
            "set `fabric_subnets` in group_data/all.py to others: they are the rails' alone",
        )
    if not node.rails and not lost:
        yield (
            "no interface of a ConnectX is here, and a fabric needs one",
            "plug the cable in at both ends: without one its interfaces may be gone; if they stay away, reboot, and "
            "look whether `lspci -d 15b3:` lists it",
        )
    elif len(node.rails) > 2 and not node.ends:
        yield (
            f"a fabric has two rails, here are {len(node.rails)}: {', '.join(node.rails)}",
            "name the two interfaces in the inventory: `fabric_interfaces`",
        )
    for entry in survey["netplan"]:
        if entry.get("unread"):
            yield f"{entry['file']} can't be looked into: {entry['unread']}", "put that right: netplan reads it too"
        for rail in node.rails if entry.get("gives") else ():
            if is_for(entry, rail, links.get(rail)):
                yield (
                    f"{entry['file']} gives `{rail}` {entry['gives']} too",
                    f"remove `{rail}` from it: netplan would keep both, and ranks could meet on the wrong one",
                )


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
        yield (
            f"{shut[0]['by']} lets no connection in over {over}: ranks and copies could not reach this node",
            " && ".join(each["remedy"] for each in shut),
        )


def _rdma(node: Node, survey: Survey, models: Sequence[ServedModel]) -> Findings:
    """Rails of a cluster's rank that can do RDMA and have no device for it: NCCL would take sockets, or half of the
    bandwidth. Without any where other ranks have them it would not come up.
    """
    wants = [each for each in models if nccl.may_use_rdma(each.recipe, each.knobs)]
    if not wants:
        return
    links = survey["state"]["links"]
    without = [rail for rail in node.rails if rail in links and not links[rail]["rdma"]]
    lacking = [rail for rail in without if links[rail]["driver"] == RDMA_DRIVER]
    others = [rank.name for each in wants for rank in each.nodes if rank.rdma and rank.name != node.name]
    if lacking or (without and others and not node.rdma):
        yield (
            f"no RDMA device is on {' and '.join(f'`{rail}`' for rail in lacking or without)}"
            f"{f', {others[0]} has them' if others else ''}: NCCL would speak TCP, and every token be late",
            "sudo modprobe mlx5_ib, or reboot: `rdma link` has to name them; where TCP is meant, set NCCL_IB_DISABLE "
            "to '1' in the recipe's env",
        )


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
