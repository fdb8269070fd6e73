"""The nodes as others in the office see them: this machine is on the nodes' office network."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager

from tests.lab.cluster import HEAD, WORKER, on
from tests.lab.settings import LINKS, MANAGEMENT_BRIDGE, LabNode

#: All that is to answer: a login, and clients of a node that serves.
SSH, PROXY = 22, 8000
_FIREWALL = "/etc/tandem/firewall/firewall.sh"


def local(node: LabNode) -> str:
    """A node's own IPv6 address on the office network, as this machine writes it."""
    told = json.loads(on(node, f"ip -j -6 addr show dev {LINKS['mgmt']}"))
    found = [each["local"] for link in told for each in link.get("addr_info", [])]
    assert found, f"{node.name} has no IPv6 address on the office network"
    return f"{found[0]}%{MANAGEMENT_BRIDGE}"


@contextmanager
def route(node: LabNode) -> Iterator[None]:
    """This machine sends what is for the fabric to a node's address in the office."""
    subnets = ("192.168.177.0/24", "192.168.178.0/24")
    for subnet in subnets:
        subprocess.run(["ip", "route", "add", subnet, "via", node.address], check=True)
    try:
        yield
    finally:
        for subnet in subnets:
            subprocess.run(["ip", "route", "del", subnet], check=True)


@contextmanager
def without_firewall() -> Iterator[None]:
    """As it would be: what the tests below find shut is open."""
    for node in (HEAD, WORKER):
        on(node, f"{_FIREWALL} drop", check=False)
    try:
        yield
    finally:
        told = [
            on(node, f"[ ! -e {_FIREWALL} ] || {_FIREWALL} load >&2 || echo bad", check=False)
            for node in (HEAD, WORKER)
        ]
        assert not any(told), told
