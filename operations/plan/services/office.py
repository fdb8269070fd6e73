"""What follows the addresses of the interface that the deploy's login came in over, on each node that serves."""

from __future__ import annotations

from collections.abc import Sequence
from ipaddress import IPv4Interface

from operations.paths import AUTHORITY, OFFICE, PROXY_USER, TLS, folder_of
from operations.plan.cluster.nodes import Node
from operations.plan.config.files import File, node_program
from operations.plan.config.knobs import Knobs
from operations.plan.services import tls
from operations.plan.services.contract import Contract, Start
from operations.plan.services.proxy import is_followed, talks
from operations.plan.services.service import Program, python_program
from operations.wire.specs import OfficeSpec


def office(knobs: Knobs, node: Node, serving: Sequence[Node]) -> Program | None:
    """The program of a node that serves beside the others of `serving`; None: nothing depends on those addresses."""
    if not is_followed(knobs, node):
        return None
    signs = knobs.tls == "self" and node.is_head
    others = [each for each in serving if each is not node and talks(knobs, each)] if talks(knobs, node) else []
    signed = {each.name: tls.lasting_names(knobs, each) for each in serving if signs}
    wanted: OfficeSpec = {
        "name": node.name,
        "device": node.office_device,
        "routerless": IPv4Interface(node.office).is_link_local,
        "port": knobs.proxy_port,
        "moving": knobs.proxy_address,
        "fabric": (node.fabric, knobs.port("office")),
        "others": {each.name: each.fabric for each in others},
        "rails": [str(subnet) for subnet in knobs.rail_subnets],
        "names": tls.lasting_names(knobs, node) if knobs.tls == "self" else [],
        "head": next((each.name for each in serving if each.is_head), ""),
        "signs": signed,
    }
    # It signs as a deploy does.
    signing = File(f"{folder_of(OFFICE)}/authority.py", node_program("door/authority.py"))
    return python_program(
        OFFICE,
        wanted,
        ("certified", "heard", "streams", "tickle"),
        [signing],
        device=node.office_device,
        certifies=knobs.tls == "self",
        signs=signs,
        tls=TLS,
        user=PROXY_USER,
        authority=AUTHORITY,
    )


SERVICE = Contract((OFFICE,), lambda its: [office(its.knobs, its.node, its.serving)], Start.BEFORE_PROXY)
