"""The virtual address: keepalived on each node that serves, and what speaks against an address before it is taken."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from ipaddress import IPv4Address, IPv4Interface
from typing import Any

from operations.paths import ADDRESS, OFFICE, OFFICE_RUN, PROXY_ASKED, PROXY_USER, SOCKETS, folder_of, unit_file
from operations.plan.cluster.environment import MOUNT
from operations.plan.cluster.nodes import Node
from operations.plan.config.files import File, as_is, render
from operations.plan.config.kind import Kind
from operations.plan.config.knobs import Knobs
from operations.plan.config.refusal import Finding
from operations.plan.recipes.images import proxy_image
from operations.plan.recipes.recipe import Recipe
from operations.plan.services.contract import Contract, Removal, Start
from operations.plan.services.proxy_memory import memory
from operations.plan.services.service import SPEC, Service, confined, docker_run, seal

#: Where keepalived finds what is said of the office (files/office/office.py).
_OFFICE = "/office"
#: It gives an interface an address (NET_ADMIN), tells the neighbours (NET_RAW), stays awake where time (SYS_NICE) and
#: memory (IPC_LOCK) are short, and runs its script as root of no group (SETGID).
_KEEPS = ("NET_ADMIN", "NET_RAW", "SYS_NICE", "IPC_LOCK", "SETGID")
_REMEDY = "choose a free address of the nodes' own office network"
OWN = Kind("address-of-a-node", "proxy_address={address} is its own address ({device})", remedy=_REMEDY)
NO_OFFICE = Kind(
    "address-no-office",
    "its login came in over {login}, of which no IPv4 interface is known",
    remedy="log in by an IPv4 address, or clear proxy_address",
)
OUTSIDE = Kind(
    "address-outside",
    "proxy_address={address} lies outside {subnet}, the network of its login's interface {device}",
    remedy=f"{_REMEDY}; all nodes that serve have to be in it, by the way you log in",
)
RESERVED = Kind(
    "address-reserved",
    "proxy_address={address} is the network's or the broadcast address of {subnet}",
    remedy=_REMEDY,
)
HELD = Kind(
    "address-held",
    "proxy_address={address} is held by another host ({mac}, heard on {device})",
    remedy=_REMEDY,
)
ID_TAKEN = Kind(
    "address-vrrp-id-taken",
    "{source} uses VRRP's id {id} on the same network",
    "routers with one id take the address from each other",
    "set proxy_vrid to another one, 1 to 255",
)


def address_service(recipe: Recipe, knobs: Knobs, node: Node) -> Service | None:
    """keepalived on a node; None: no address is wanted. It speaks with all other nodes, at the addresses that they have
    (operations/node/network/office.py), those that do not serve among them: one that was off comes back with the plan
    of before, and has to hear who has the address.
    """
    if not knobs.proxy_address:
        return None
    image, folder = proxy_image(recipe, knobs), folder_of(ADDRESS)
    # With a prefix of its own: nothing is ever sent from it, and it stays when the node's own address is renewed.
    address, config = f"{knobs.proxy_address}/32", f"{MOUNT}/keepalived.conf"
    known = {"address": address, "interface": node.office_device, "folder": folder}
    docker = [
        *docker_run(ADDRESS),
        *confined(0, *_KEEPS, memory=memory(ADDRESS)),
        "--label",
        f"tandem.address={knobs.proxy_address}",
    ]
    docker += ["--volume", f"{OFFICE_RUN}:{_OFFICE}:ro", "--volume", f"{SOCKETS}:{SOCKETS}:ro"]
    docker += ["--volume", f"{folder}:{MOUNT}:ro", "--entrypoint", f"{MOUNT}/start.sh", image.local]
    keepalived = render(
        "address/keepalived.conf.j2",
        mount=MOUNT,
        name=node.name.removeprefix("@"),
        vrid=vrid(knobs),
        office=_OFFICE,
        **known,
    )
    files = [
        File(f"{folder}/keepalived.conf", keepalived),
        File(f"{folder}/start.sh", render("address/start.sh.j2", config=config), "755"),
        File(
            f"{folder}/asks.py",
            render("address/asks.py.j2", socket=PROXY_ASKED.removeprefix("unix:")),
            "755",
        ),
        File(f"{folder}/greet.py", as_is("address/greet.py")),
        File(
            f"{folder}/ready.sh",
            render(
                "address/ready.sh.j2",
                office=folder_of(OFFICE),
                office_run=OFFICE_RUN,
                sockets=SOCKETS,
                user=PROXY_USER,
                **known,
            ),
            "755",
        ),
        File(
            f"{folder}/reload.sh",
            render("address/reload.sh.j2", office_run=OFFICE_RUN, folder=folder),
            "755",
        ),
        File(f"{folder}/run.sh", render("run.sh.j2", docker=docker), "755"),
        File(
            unit_file(ADDRESS),
            render("address/tandem-address.service.j2", spec=SPEC, **known),
        ),
    ]
    return seal(ADDRESS, image, files, files)


def vrid(knobs: Knobs) -> int:
    """By which keepalived knows its own: the knob's, or the last byte of the address."""
    return knobs.proxy_vrid or IPv4Address(knobs.proxy_address).packed[3] or 255


def to_be_told(
    own: str, nodes: Sequence[Node], absent: Collection[str], heard: Mapping[str, Sequence[str]]
) -> dict[str, list[str]]:
    """Where all others are in the office, by their names, when a node does not know it yet: keepalived has to speak
    with them from its first word. `heard`: what it knows, which stands for those that are `absent`, be it that an
    address is known and not whose (operations/node/network/office.py). Empty: it knows.
    """
    here = {each.name: [each.management] for each in nodes if each.name != own and ":" not in each.management}
    kept = {*absent}
    if not kept <= heard.keys():
        present = {address for each in nodes for address in (each.name, each.management)}
        kept |= heard.keys() - present
    wanted = {name: list(heard[name]) for name in heard if name in kept} | here
    # A node may have told of more addresses than the one that its login came in on.
    is_known = wanted.keys() == heard.keys() and all(set(wanted[name]) <= {*heard[name]} for name in wanted)
    return {} if is_known else wanted


def check_address(knobs: Knobs, serving: Sequence[Node], surveys: Mapping[str, Mapping[str, Any]]) -> Iterator[Finding]:
    """What speaks against the address on the nodes that will have it; `surveys` of all nodes by name."""
    if not knobs.proxy_address:
        return
    if any(IPv4Address(knobs.proxy_address) in subnet for subnet in knobs.rail_subnets):
        problem = f"proxy_address={knobs.proxy_address} lies in a subnet of the rails, where no client is"
        yield Finding("knob", problem, _REMEDY)
        return
    if owners := [name for name, survey in surveys.items() if _is_its_own(knobs.proxy_address, survey)]:
        device = surveys[owners[0]]["office"]["addresses"][knobs.proxy_address]
        yield OWN.finding(owners[0], address=knobs.proxy_address, device=device)
        return
    # Every node's every interface answers for the address while the node has it, be it one that serves no more.
    offices = [survey.get("office") or {} for survey in surveys.values()]
    macs = {mac for office in offices for mac in office.get("macs", ())}
    addresses = {address for office in offices for address in office.get("addresses", {})}
    for node in serving:
        yield from _against(knobs, node, surveys[node.name].get("claimed") or {}, macs, addresses)


def _against(
    knobs: Knobs, node: Node, claimed: Mapping[str, Any], macs: Collection[str], addresses: Collection[str]
) -> Iterator[Finding]:
    """`claimed`: what the node has heard of others; `macs` and `addresses`: whose words are our own."""
    wanted, device = IPv4Address(knobs.proxy_address), node.office_device
    if not node.office:
        yield NO_OFFICE.finding(node.name, login=node.management)
        return
    subnet, address = IPv4Interface(node.office).network, knobs.proxy_address
    if wanted not in subnet:
        yield OUTSIDE.finding(node.name, address=address, subnet=subnet, device=device)
    elif subnet.prefixlen < 31 and wanted in (subnet.network_address, subnet.broadcast_address):
        yield RESERVED.finding(node.name, address=address, subnet=subnet)
    elif claimed.get("mac") and claimed["mac"] not in macs:
        yield HELD.finding(node.name, address=address, mac=claimed["mac"], device=device)
    for source in claimed.get("vrids", {}).get(str(vrid(knobs)), []):
        if source not in addresses:
            yield ID_TAKEN.finding(node.name, source=source, id=vrid(knobs))


def _is_its_own(address: str, survey: Mapping[str, Any]) -> bool:
    """Whether an interface of a node has it, and not from Tandem."""
    if address not in (survey.get("office") or {}).get("addresses", {}):
        return False
    unit: Mapping[str, str] = survey["state"]["services"]["units"][ADDRESS]
    return unit.get("address") != address


SERVICE = Contract(
    (ADDRESS,),
    lambda its: [address_service(its.recipe, its.knobs, its.node)],
    Start.OWN_STEP,
    removal=Removal.SERVING,
)
