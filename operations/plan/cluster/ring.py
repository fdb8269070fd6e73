"""Three nodes without a switch: a cable between each two, and both ports of every node in use.

So every node has another way to each of the others, and another address at the end of each. NVIDIA's playbook for
three Sparks ([W] in docs/sources.md) lets the ranks find each other over the office network. Here nothing of a cluster
speaks there: each address of a node can be reached from both others.

- Each cable has a quarter of each rail's subnet. NCCL tells by the subnet which port leads to which rank, and is told
  how long its prefix is (`environment.py`).
- A node is called by the address of its first rail, which leads to the next node. The one before has a route to it,
  over the cable between the two: the kernel answers for an address on any port, so the other cable may be out.
- The same holds for the addresses of the other rails. NCCL, gloo and Ray each tell others the address of some
  interface.

No rail has a second address, since RDMA would choose between them (each is one more GID). All of it is in netplan's
file for the rails, and goes with that.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from ipaddress import IPv4Interface, IPv4Network

from operations.plan.cluster import nccl
from operations.plan.cluster.nodes import Node, halves, port_of
from operations.plan.cluster.served_model import ServedModel
from operations.plan.config.kind import Kind
from operations.plan.config.refusal import Finding, typed
from operations.wire.doctor import HeardFrame
from operations.wire.fabric import Links

SIZE = 3
#: The first one that chooses a device by the peer's subnet ([W] in docs/sources.md).
NCCL = "2.30.7"
#: A rail's subnet, with room for three nodes in each quarter of it.
NARROWEST = 26
TORN = Kind(
    "ring-port-gone",
    "is one of a ring, and a port of it has no interfaces",
    remedy="plug the cable in at both ends; where no ring is wanted any more, name the two rails of each node in the "
    "inventory (`fabric_interfaces`)",
)
HALF = Kind(
    "ring-port-half",
    "a port of a ring has two interfaces, here are {count} at both ports: {names}",
    "routes and NCCL count on both halves of a port",
    "plug the cables in anew at both ends, and reboot it; `lspci -d 15b3:` lists both halves of each port",
)
GAP = Kind(
    "ring-gap",
    "no cable joins {one} and {other}, and {middle} has a cable to each: one of a ring is missing",
    remedy="join a port of each with a cable, or put all three on one switch{otherwise}",
)
#: What each node has heard on its ports (operations/node/doctor/cables.py), by its name.
Heard = Mapping[str, Sequence[HeardFrame]]


def neighbours(index: int) -> tuple[int, int]:
    """The next node of the inventory, and the one before."""
    return (index + 1) % SIZE, (index - 1) % SIZE


def cable_subnet(rail: IPv4Network, one: int, other: int) -> IPv4Network:
    """What the cable between two nodes has of a rail's subnet."""
    first = one if neighbours(one)[0] == other else other
    return list(rail.subnets(2))[first]


def subnets_of(index: int, rails: Sequence[IPv4Network]) -> tuple[IPv4Network, ...]:
    """Subnets of a node's cables, those to the next node first."""
    return tuple(cable_subnet(rail, index, other) for other in neighbours(index) for rail in rails)


def routes(node: Node, rails: Sequence[IPv4Network]) -> dict[str, tuple[str, str]]:
    """device -> (what the node behind it has on its other cable, what it has on this one)."""
    found = {}
    for place, (device, subnet) in enumerate(zip(node.rails, node.subnets, strict=True)):
        rail, other = rails[place % len(rails)], neighbours(node.index)[place // len(rails)]
        third = next(each for each in range(SIZE) if each not in (node.index, other))
        far = cable_subnet(rail, other, third)
        found[device] = str(far.network_address + 11 + other), str(subnet.network_address + 11 + other)
    return found


def addressed(links: Links, rails: Sequence[IPv4Network]) -> dict[IPv4Network, str]:
    """subnet of a cable -> the device that has an address of it; empty where not both ports have."""
    cables = {part for rail in rails if rail.prefixlen <= NARROWEST for part in list(rail.subnets(2))[:SIZE]}
    found = {
        network: device
        for device, link in links.items()
        for network in (IPv4Interface(address).network for address in link["addresses"])
        if network in cables
    }
    return found if len(found) == 2 * len(rails) else {}


def known(links: Sequence[Links], places: Sequence[int], rails: Sequence[IPv4Network]) -> list[tuple[str, ...]]:
    """The rails of nodes that have the addresses of a ring already; empty: not all of them have, or it is none any
    more. `places`: in the inventory.
    """
    found = []
    for place, here in zip(places, links, strict=True):
        at = addressed(here, rails)
        wanted = subnets_of(place, rails)
        if set(at) != set(wanted):
            return []
        found.append(tuple(at[subnet] for subnet in wanted))
    return found


def on_a_switch(links: Sequence[Links]) -> bool:
    """Whether what was a ring is none any more. A cable that is out for a moment is no sign of it: it leaves an even
    number of ports with a carrier, while three nodes on a switch have one each.
    """
    return len(links) == SIZE and all(_live_ports(here) == 1 for here in links)


def may_be(links: Sequence[Links], serving: Sequence[Links], rails: Sequence[IPv4Network]) -> bool:
    """Whether it is worth listening: all nodes have two ports, and those that serve not addresses for one that alone is
    plugged in.
    """
    if len(links) != SIZE or any(len({port_of(device) for device in here}) < 2 for here in links):
        return False
    settled = all(
        set(rails) <= {IPv4Interface(address).network for link in here.values() for address in link["addresses"]}
        for here in serving
    )
    return not settled or all(_live_ports(here) > 1 for here in links)


def _live_ports(links: Links) -> int:
    return len({port_of(device) for device, link in links.items() if link["carrier"]})


def found(heard: Heard, devices: Mapping[str, Sequence[str]]) -> dict[str, tuple[str, ...]]:
    """The rails of each node, those to the next one first, by whose frames were heard where; empty: it is no ring.
    `devices`: of each node, in the inventory's order.
    """
    names, rails = list(devices), {}
    for index, name in enumerate(names):
        ports = [_toward(heard, name, names[other]) for other in neighbours(index)]
        if any(len(each) != 1 for each in ports) or ports[0] == ports[1]:
            return {}
        rails[name] = tuple(device for (port,) in ports for device in halves(devices[name], port))
    return rails


def torn(links: Mapping[str, Links], rails: Sequence[IPv4Network]) -> list[Finding]:
    """What is said of nodes of a ring whose netdevs went with a cable: the two that are left look like another wiring.
    `links`: of each node by its name.
    """
    if on_a_switch(list(links.values())):
        return []
    cables = {part for rail in rails if rail.prefixlen <= NARROWEST for part in rail.subnets(2)}
    return [
        TORN.finding(name)
        for name, here in links.items()
        if len(here) < 2 * len(rails)
        and any(IPv4Interface(address).network in cables for link in here.values() for address in link["addresses"])
    ]


def check_netdevs(rails: Mapping[str, Sequence[str]]) -> list[Finding]:
    """Nodes of a ring with a port that shows one netdev alone: routes and NCCL count on both halves."""
    return [
        HALF.finding(name, count=len(each), names=", ".join(each)) for name, each in rails.items() if len(each) != 4
    ]


def gap(heard: Heard, names: Sequence[str], serving: Collection[str]) -> list[Finding]:
    """What is said where one of the three cables is missing: two nodes hear nothing of each other, and the third hears
    each of both on a port of its own. `serving`: nodes that need each other. Where these have their cable, and one to a
    node that does not serve is missing, the rails between them can be named instead.
    """
    for index, middle in enumerate(names):
        one, other = (names[each] for each in neighbours(index))
        ports = _toward(heard, middle, one), _toward(heard, middle, other)
        if not _toward(heard, one, other) and not _toward(heard, other, one) and all(ports) and not ports[0] & ports[1]:
            otherwise = f"; or name the two rails of {middle} in the inventory (`fabric_interfaces`)"
            are_needed = {one, other} <= set(serving)
            data = {"one": one, "other": other, "middle": middle, "otherwise": "" if are_needed else otherwise}
            return [GAP.finding("fabric", **data)]
    return []


def _toward(heard: Heard, name: str, other: str) -> set[str]:
    """Ports of a node on which another one was heard."""
    return {port_of(each["device"]) for each in heard[name] if each["node"] == other}


def ring_remarks(models: Sequence[ServedModel]) -> list[str]:
    """What is said of clusters whose ranks are on both ports of a node. One over two nodes of a ring has one cable."""
    found = [each for each in models if each.knobs.topology == "cluster" and len(each.nodes) == SIZE]
    return [
        f"{each.recipe.name}: in a ring NCCL has to be {NCCL} or newer in the image (`tandem sbom` names it), an older "
        "one takes the port to the wrong node and hangs; `NCCL_IB_DISABLE: 1` in the recipe's env does with TCP"
        for each in found
        if any(node.ends and node.rdma for node in each.nodes) and not nccl.turns_rdma_off(each.recipe)
    ]


def check_subnets(rails: Sequence[IPv4Network]) -> list[Finding]:
    """Subnets of rails that are too narrow for a ring's quarters."""
    if all(rail.prefixlen <= NARROWEST for rail in rails):
        return []
    said = ",".join(map(str, rails))
    problem = (
        f"{typed('fabric_subnets', said)}: too narrow for a ring, in which each cable has a quarter of a rail's subnet"
    )
    return [Finding("knob", problem, f"give each rail a /{NARROWEST} or wider, a /24 for instance")]
