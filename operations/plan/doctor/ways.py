"""Between which addresses nodes are measured."""

from __future__ import annotations

from collections.abc import Sequence
from ipaddress import ip_interface

from operations.wire.fabric import Links, Way


def between(one: Links, other: Links) -> list[Way]:
    """{device, own, address, peer_device, rdma, peer_rdma} for each subnet that both have on a port with carrier."""
    there = [
        (ip_interface(address), device, link)
        for device, link in other.items()
        if link["carrier"]
        for address in link["addresses"]
    ]
    return [
        {
            "device": device,
            "own": str(own.ip),
            "address": str(far.ip),
            "peer_device": far_device,
            "rdma": link["rdma"],
            "peer_rdma": far_link["rdma"],
        }
        for device, link in one.items()
        if link["carrier"]
        for own in map(ip_interface, link["addresses"])
        for far, far_device, far_link in there
        if own.network == far.network
    ]


def pairs(nodes: Sequence[str]) -> list[tuple[str, str]]:
    """Each node with the next one, in a circle: every port carries one stream at a time, and none is left out."""
    if len(nodes) < 3:
        return [(nodes[0], nodes[1])] if len(nodes) == 2 else []
    return [(node, nodes[(place + 1) % len(nodes)]) for place, node in enumerate(nodes)]
