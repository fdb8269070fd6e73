"""Who has an address, and who speaks VRRP, on a real network."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator

import pytest

from tests.node.addressed import hear
from tests.node.spaces import Space, wire
from tests.plan.samples import ROOT

pytestmark = pytest.mark.skipif(os.geteuid() != 0, reason="wants root, for network namespaces")
#: A double of a neighbour's router: id 77, three times a second.
_ROUTER = """
import socket, struct, time
out = socket.socket(socket.AF_INET, socket.SOCK_RAW, 112)
out.setsockopt(socket.IPPROTO_IP, socket.IP_MULTICAST_IF, socket.inet_aton("10.0.0.7"))
while True:
    out.sendto(struct.pack("!BBBBHH4s", 0x31, 77, 100, 1, 100, 0, socket.inet_aton("10.0.0.8")), ("224.0.0.18", 0))
    time.sleep(0.3)
"""
#: A host that fills the network with what is nobody's matter here.
_NOISE = """
import socket
out = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
while True:
    try:
        out.sendto(b"x" * 64, ("10.0.0.11", 9))
    except OSError:
        pass
"""


@pytest.fixture(scope="module")
def spaces() -> Iterator[tuple[Space, Space]]:
    """A node, and a neighbour on the same cable that has two addresses and a second interface."""
    node, neighbour = Space(), Space()
    wire(node, "enP7s7", neighbour, "eth0")
    node.address("enP7s7", "10.0.0.11/24")
    neighbour.address("eth0", "10.0.0.7/24", "10.0.0.50/24")
    yield node, neighbour
    node.close()
    neighbour.close()


def test_an_address_that_another_host_has_is_told_with_its_mac(spaces: tuple[Space, Space]) -> None:
    node, neighbour = spaces
    mac = json.loads(neighbour.run("ip", "-j", "link", "show", "eth0"))[0]["address"]
    assert hear(node, "10.0.0.50") == {"mac": mac, "vrids": {}}
    assert hear(node, "10.0.0.51") == {"mac": "", "vrids": {}}
    # Asking has put nobody into nobody's table.
    assert "10.0.0.5" not in neighbour.run("ip", "neigh")


def test_a_neighbour_s_vrrp_is_heard_on_a_busy_network(spaces: tuple[Space, Space]) -> None:
    node, neighbour = spaces
    others = [subprocess.Popen(neighbour.argv(sys.executable, "-c", each)) for each in (_ROUTER, _NOISE)]
    try:
        assert hear(node, "10.0.0.51") == {"mac": "", "vrids": {"77": ["10.0.0.7"]}}
    finally:
        for each in others:
            each.kill()
            each.wait()


def test_an_interface_without_a_mac_has_nobody_to_ask(spaces: tuple[Space, Space]) -> None:
    node, _ = spaces
    node.run("ip", "tuntap", "add", "tun0", "mode", "tun")
    node.address("tun0", "100.64.0.1/32")
    assert hear(node, "100.64.0.9", "tun0") == {"mac": "", "vrids": {}}


def test_a_node_tells_all_macs_and_addresses_that_are_its_own(spaces: tuple[Space, Space]) -> None:
    node, _ = spaces
    node.run("ip", "link", "add", "wlan0", "type", "bridge")
    node.address("wlan0", "10.0.0.12/24")
    program = "import json; from operations.node.network import links; print(json.dumps(links.office('10.0.0.11')))"
    told = json.loads(node.run("env", f"PYTHONPATH={ROOT}", sys.executable, "-c", program))
    assert (told["device"], told["address"]) == ("enP7s7", "10.0.0.11/24")
    assert told["addresses"].items() >= {"10.0.0.11": "enP7s7", "10.0.0.12": "wlan0"}.items()
    for device in ("enP7s7", "wlan0"):
        assert json.loads(node.run("ip", "-j", "link", "show", device))[0]["address"] in told["macs"]
