"""The rails that all nodes of a fabric have. A port may show one netdev alone, where a GB10's has one for each PCIe
half: then the fabric is one rail, and serves at half of the bandwidth.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from ipaddress import IPv4Network

#: Devices, and the subnet of each.
Placed = tuple[tuple[str, ...], tuple[IPv4Network, ...]]


def placed(rails: Sequence[str], subnets: Sequence[IPv4Network]) -> Placed:
    """A node's devices with their subnets. One that is alone has its own half's, so that it keeps its address when the
    other half comes back.
    """
    if len(rails) == 1:
        return tuple(rails), (subnets[rails[0].startswith("enP")],)
    return tuple(rails), tuple(subnets) if rails else ()


def shared(rails: Mapping[str, Sequence[str]], subnets: Sequence[IPv4Network]) -> dict[str, Placed]:
    """The same for nodes that serve together, by name: the halves that all of them have. `rails`: the devices of each;
    none, or more than two, are left as they are, since the preflight refuses them.
    """
    own = {name: placed(each, subnets) for name, each in rails.items()}
    pairs = {
        name: dict(zip(nets, devices, strict=True)) for name, (devices, nets) in own.items() if 0 < len(devices) < 3
    }
    common = tuple(subnet for subnet in subnets if all(subnet in each for each in pairs.values()))
    # Halves of one port hear each other: where one node shows this half alone and another that one, both do as a rail.
    return own | {
        name: (tuple(each[subnet] for subnet in common), common)
        if common
        else ((next(iter(each.values())),), tuple(subnets[:1]))
        for name, each in pairs.items()
    }


def half_remarks(rails: Mapping[str, Sequence[str]]) -> list[str]:
    """What is said of nodes whose port shows one netdev. `rails`: as found on those whose owner names none."""
    return [
        f"{name}: its port shows one netdev, {each[0]}, a GB10's has two: the fabric is one rail, and half of its "
        "bandwidth is missing. Plug the cable in anew at both ends, until it clicks, and reboot the node; "
        "`lspci -d 15b3:` lists both halves of each port. When the other one is there, the next deploy takes it"
        for name, each in rails.items()
        if len(each) == 1
    ]
