"""Where a node's proxy listens, and what its clients call it."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from ipaddress import IPv6Address, ip_address

from operations.paths import AT_OFFICE
from operations.plan.cluster.nodes import Node
from operations.plan.config.knobs import Knobs
from operations.plan.config.refusal import Finding, Refusal, typed


def bind_address(knobs: Knobs, node: Node) -> str:
    """The address that the proxy of a node listens on. One that is named is the head's: others stay on loopback."""
    named = {"loopback": "127.0.0.1", "all": "0.0.0.0", "management": node.management}
    return named.get(knobs.proxy_bind, knobs.proxy_bind if node.is_head else "127.0.0.1")


def bind_addresses(knobs: Knobs, node: Node) -> tuple[str, ...]:
    """All of them: the virtual address too, which this node may not have at the moment. AT_OFFICE: those that the
    login's interface has, whatever they are.
    """
    own = AT_OFFICE if knobs.proxy_bind == "management" and node.office_device else bind_address(knobs, node)
    return (own, knobs.proxy_address) if knobs.proxy_address and own != "0.0.0.0" else (own,)


def is_followed(knobs: Knobs, node: Node) -> bool:
    """Whether anything of the proxy's depends on which addresses the login's interface has."""
    return bool(node.office_device and (knobs.proxy_address or knobs.proxy_bind in ("management", "all")))


def talks(knobs: Knobs, node: Node) -> bool:
    """Whether a node tells the others those addresses: keepalived speaks with them, or the head signs for them."""
    return is_followed(knobs, node) and bool(node.rails) and bool(knobs.proxy_address or knobs.tls == "self")


def shared_url(knobs: Knobs) -> str:
    """The base URL at the virtual address; empty: there is none."""
    return f"{_scheme(knobs)}://{knobs.proxy_address}:{knobs.proxy_port}" if knobs.proxy_address else ""


def client_url(knobs: Knobs, node: Node) -> str:
    """The base URL by which clients use the proxy of a node, with the address that it has now."""
    bind = bind_address(knobs, node)
    return f"{_scheme(knobs)}://{in_url(node.management if bind == '0.0.0.0' else bind)}:{knobs.proxy_port}"


def kept_url(knobs: Knobs, node: Node) -> str:
    """The same for what outlives an address: AT_OFFICE stands for one that is followed."""
    if not node.office_device or knobs.proxy_bind not in ("management", "all"):
        return client_url(knobs, node)
    return f"{_scheme(knobs)}://{AT_OFFICE}:{knobs.proxy_port}"


def _scheme(knobs: Knobs) -> str:
    return "http" if knobs.tls == "off" else "https"


def in_url(address: str) -> str:
    """An address as it stands before a port."""
    return f"[{address}]" if ":" in address else address


def check_bind(knobs: Knobs, node: Node) -> None:
    """Refuse an address of a node that no client could use. Raises Refusal.

    `node.management` is IPv6 only where the login's interface has no IPv4 address (operations/node/network/links.py).
    """
    address = node.management
    if ":" not in address or knobs.proxy_bind not in ("management", "all"):
        return
    if knobs.proxy_bind == "all":
        why = "the proxy would listen on IPv4 alone"
    elif IPv6Address(address.partition("%")[0]).is_link_local:
        why = "which other nodes can't name"
    else:
        return
    problem = f"{typed('proxy_bind', knobs.proxy_bind)}: the login to {node.name} goes to {address}, {why}"
    remedy = "set proxy_bind to an IPv4 address of the head (`ip -4 addr` there lists them)"
    raise Refusal(Finding("knob", problem, remedy))


def check_named(knobs: Knobs, head: Node, has: Collection[str]) -> Iterator[Finding]:
    """What speaks against a named address: none of the head's interfaces has it. HAProxy would listen there all the
    same, and nobody would come. `has`: the head's IPv4 addresses; empty: they are not known.
    """
    named = knobs.proxy_bind
    if named in ("loopback", "all", "management") or not has or named in (*has, *head.rail_addresses):
        return
    if not (ip_address(named).is_loopback or ip_address(named).is_unspecified):
        remedy = "set proxy_bind to an address that `ip -4 addr` lists there, or to management"
        yield Finding(head.name, f"{typed('proxy_bind', named)}: no interface here has this address", remedy)
