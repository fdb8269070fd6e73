"""The virtual address: keepalived on each node that serves, and what speaks against an address before it is taken."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from ipaddress import IPv4Address, IPv4Interface
from typing import Any

from operations.plan.environment import MOUNT
from operations.plan.files import File, render
from operations.plan.images import proxy_image
from operations.plan.knobs import Knobs
from operations.plan.nodes import Node
from operations.plan.places import ADDRESS, folder_of
from operations.plan.proxy import asked_at
from operations.plan.recipe import Recipe
from operations.plan.refusal import Finding
from operations.plan.service import SPEC, Service, docker_run, seal


def address_service(recipe: Recipe, knobs: Knobs, node: Node, serving: Sequence[Node]) -> Service | None:
    """keepalived on a node; None: no address is wanted."""
    if not knobs.proxy_address:
        return None
    image, folder = proxy_image(recipe, knobs), folder_of(ADDRESS)
    address = f"{knobs.proxy_address}/{IPv4Interface(node.office).network.prefixlen}"
    known = {"address": address, "interface": node.office_device, "own": node.management, "folder": folder}
    docker = [*docker_run(ADDRESS), "--label", f"tandem.address={knobs.proxy_address}"]
    # It gives an interface an address, tells the neighbours, and runs before others where time is short.
    docker += ["--cap-drop", "ALL"]
    for capability in ("NET_ADMIN", "NET_RAW", "NET_BROADCAST", "SYS_NICE"):
        docker += ["--cap-add", capability]
    docker += ["--volume", f"{folder}:{MOUNT}:ro", "--entrypoint", "keepalived", image.local]
    docker += ["--dont-fork", "--log-console", "--log-detail", "--use-file", f"{MOUNT}/keepalived.conf"]
    config = render(
        "address/keepalived.conf.j2",
        name=node.name.removeprefix("@"),
        vrid=vrid(knobs),
        peers=[each.management for each in serving if each.name != node.name],
        **known,
    )
    files = [
        File(f"{folder}/keepalived.conf", config),
        File(
            f"{folder}/asks.sh",
            render("address/asks.sh.j2", host=asked_at(knobs, node), port=knobs.proxy_port),
            "755",
        ),
        File(f"{folder}/ready.sh", render("address/ready.sh.j2", **known), "755"),
        File(f"{folder}/run.sh", render("run.sh.j2", docker=docker), "755"),
        File(
            f"/etc/systemd/system/{ADDRESS}.service",
            render("address/tandem-address.service.j2", spec=SPEC, **known),
        ),
    ]
    return seal(ADDRESS, image, files, files)


def vrid(knobs: Knobs) -> int:
    """By which keepalived knows its own: the knob's, or the last byte of the address."""
    return knobs.proxy_vrid or IPv4Address(knobs.proxy_address).packed[3] or 255


def check_address(knobs: Knobs, serving: Sequence[Node], surveys: Mapping[str, Mapping[str, Any]]) -> Iterator[Finding]:
    """What speaks against the address on the nodes that will have it; `surveys` by node."""
    if not knobs.proxy_address:
        return
    wanted, set_to = IPv4Address(knobs.proxy_address), f"proxy_address={knobs.proxy_address!r}"
    remedy = "choose a free address of the nodes' own office network"
    if any(wanted in subnet for subnet in knobs.rail_subnets):
        yield Finding("data", f"{set_to} lies in a subnet of the rails, where no client is", remedy)
        return
    ours = {survey["office"]["mac"] for survey in surveys.values() if survey.get("office")}
    own = {node.management: node.name for node in serving}
    if knobs.proxy_address in own:
        yield Finding(own[knobs.proxy_address], f"{set_to} is its own address", remedy)
        return
    for node in serving:
        if not node.office:
            problem = f"its login came in over {node.management}, of which no IPv4 interface is known"
            yield Finding(node.name, problem, "log in by an IPv4 address, or clear proxy_address")
            continue
        subnet = IPv4Interface(node.office).network
        if wanted not in subnet or wanted in (subnet.network_address, subnet.broadcast_address):
            yield Finding(node.name, f"{set_to} is no host's address in its office network {subnet}", remedy)
            continue
        found = surveys[node.name].get("claimed") or {}
        if found.get("mac") and found["mac"] not in ours:
            yield Finding(node.name, f"{set_to} is held by another host ({found['mac']})", remedy)
        for source in found.get("vrids", {}).get(str(vrid(knobs)), []):
            if source not in own:
                problem = f"{source} uses VRRP's id {vrid(knobs)} on the same network"
                yield Finding(node.name, problem, "set proxy_vrid to another one, 1 to 255")
