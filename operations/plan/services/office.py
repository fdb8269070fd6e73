"""What follows the addresses of the interface that the deploy's login came in over, on each node that serves."""

from __future__ import annotations

import json
from collections.abc import Sequence
from ipaddress import IPv4Interface
from pathlib import Path

from operations.paths import AUTHORITY, OFFICE, PROXY_USER, TLS, folder_of, unit_file
from operations.plan.cluster.nodes import Node
from operations.plan.config.files import File, as_is, render
from operations.plan.config.knobs import Knobs
from operations.plan.services import tls
from operations.plan.services.contract import Contract, Start
from operations.plan.services.proxy import is_followed, talks
from operations.plan.services.service import SPEC, Program, seal_program
from operations.wire.specs import OfficeSpec

_PARTS = ("office", "certified", "heard", "streams", "tickle")
#: It signs as a deploy does.
_SIGNING = Path(__file__).parents[2] / "node/door/authority.py"


def office(knobs: Knobs, node: Node, serving: Sequence[Node]) -> Program | None:
    """The program of a node that serves beside the others of `serving`; None: nothing depends on those addresses."""
    if not is_followed(knobs, node):
        return None
    folder, signs = folder_of(OFFICE), knobs.tls == "self" and node.is_head
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
    unit = render(
        "office/tandem-office.service.j2",
        folder=folder,
        spec=SPEC,
        device=node.office_device,
        certifies=knobs.tls == "self",
        signs=signs,
        tls=TLS,
        user=PROXY_USER,
        authority=AUTHORITY,
    )
    files = [
        *(File(f"{folder}/{part}.py", as_is(f"office/{part}.py")) for part in _PARTS),
        File(f"{folder}/authority.py", _SIGNING.read_text()),
        File(f"{folder}/office.json", json.dumps(wanted, indent=1) + "\n"),
        File(unit_file(OFFICE), unit),
    ]
    return seal_program(OFFICE, files)


SERVICE = Contract((OFFICE,), lambda its: [office(its.knobs, its.node, its.serving)], Start.BEFORE_PROXY)
