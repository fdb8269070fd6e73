"""Which port is cabled to which, judged from whose frames were heard where."""

from __future__ import annotations

from collections.abc import Iterator
from ipaddress import ip_interface
from itertools import combinations

from operations.plan.cluster.nodes import port_of
from operations.plan.config.kind import Kind
from operations.plan.doctor.symptom import BAD, REMARK, Seen, Symptom, found
from operations.wire.doctor import Cables
from operations.wire.fabric import Link, Links

UNJOINED = Kind(
    "cable-unjoined",
    "no port of the one hears a port of the other",
    "they can't be two ranks of a cluster, nor copy from each other",
    "join a port of each with a cable, or both to one switch",
)
ONE_WAY = Kind(
    "cable-one-way",
    "{node} {port} hears {peer} {peer_port}, and is not heard",
    "frames go one way only",
    "reseat the cable, or take another",
)
LOOP = Kind(
    "cable-loop",
    "{port} hears another port of its own node",
    "frames go in a circle, and neither port reaches another node",
    "move one end of that cable",
)
STRANGER = Kind(
    "cable-stranger",
    "{port} has a carrier, and hears none of these nodes",
    "it is cabled to something else, or to a port that is down at the other end",
    "follow the cable",
)
CROSSED = Kind(
    "cable-crossed",
    "crossed: {port} of {node} meets {met} of {peer}, its subnet is on {meant}",
    "both have a link, and no packet arrives",
    "swap the cables at one end",
)


def judge(seen: Seen) -> Iterator[Symptom]:
    """Needs the frames of all nodes that answer."""
    if not seen.needs_rails or len(seen.cables) < 2:
        return
    links = dict(seen.topic(lambda look: look.get("links")))
    heard = {
        (node, each["device"], each["node"], each["from"])
        for node, told in seen.cables.items()
        for each in told["heard"]
    }
    for one, other in combinations(seen.cables, 2):
        yield from _pair(one, other, heard, seen)
    for node, told in seen.cables.items():
        yield from _ports(node, told, heard, seen)
        yield from _crossed(node, links, heard)


Heard = set[tuple[str, str, str, str]]


def _pair(one: str, other: str, heard: Heard, seen: Seen) -> Iterator[Symptom]:
    ways = {(at, of) for at, _device, of, _from in heard}
    if (one, other) not in ways and (other, one) not in ways:
        if seen.cables[one]["ports"] and seen.cables[other]["ports"]:
            yield found(UNJOINED, BAD, one, other)
        return
    for at, of in ((one, other), (other, one)):
        for _at, device, _of, source in sorted(each for each in heard if each[0] == at and each[2] == of):
            if not any(each[0] == of and each[1] == source and each[2] == at for each in heard):
                yield found(ONE_WAY, BAD, at, of, node=at, port=device, peer=of, peer_port=source)


def _ports(node: str, told: Cables, heard: Heard, seen: Seen) -> Iterator[Symptom]:
    for device in told["ports"]:
        others = {(of, source) for at, port, of, source in heard if (at, port) == (node, device)}
        reaches = any(of != node for of, _source in others)
        # A switch floods the frames: there both ports of a node hear each other, and the other nodes as well.
        if not reaches and any(of == node and port_of(source) != port_of(device) for of, source in others):
            yield found(LOOP, BAD, node, port=device)
        if not reaches:
            is_rail = device in seen.rails.get(node, ())
            yield found(STRANGER, BAD if is_rail else REMARK, node, port=device)


def _crossed(node: str, links: dict[str, Links], heard: Heard) -> Iterator[Symptom]:
    """A port whose subnet is on another port of the node at the other end than the one that it is joined to."""
    for device, link in links.get(node, {}).items():
        own = _networks(link)
        for peer in sorted({of for at, port, of, _source in heard if (at, port) == (node, device) and of != node}):
            met = {source for at, port, of, source in heard if (at, port, of) == (node, device, peer)}
            theirs = links.get(peer, {})
            meant = [name for name, other in theirs.items() if own & _networks(other)]
            if own and meant and not met & set(meant) and any(_networks(theirs.get(name)) for name in met):
                names = {"met": ", ".join(sorted(met)), "meant": ", ".join(sorted(meant))}
                yield found(CROSSED, BAD, node, peer, port=device, node=node, peer=peer, **names)


def _networks(link: Link | None) -> set[str]:
    return {str(ip_interface(address).network) for address in (link["addresses"] if link else ())}


def figures(seen: Seen) -> Iterator[str]:
    """The cables that were found."""
    joined = {
        tuple(sorted([(node, each["device"]), (each["node"], each["from"])]))
        for node, told in seen.cables.items()
        for each in told["heard"]
        if each["node"] != node
    }
    for (one, port), (other, far) in sorted(joined):
        # Both halves of a port are one L2, so each hears both of the other port's: like half and like half are said.
        likes = {(other, each) for at, (node, each) in joined if at == (one, port) and node == other}
        likes = {(node, each) for node, each in likes if port_of(each) == port_of(far) and _half(each) == _half(port)}
        if not likes or (other, far) in likes:
            yield f"{one} {port} <-> {other} {far}"


def _half(device: str) -> bool:
    """Whether it is the second half of its port."""
    return device.startswith("enP")
