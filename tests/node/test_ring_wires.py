"""A ring of three cables (veth) between namespaces: heard while its ports are down, and every address is reached over
the cable between the two nodes.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from itertools import permutations

import pytest
import yaml

from operations.plan.cluster import ring
from operations.plan.cluster.fabric import fabric_files, rails_of
from operations.plan.cluster.nodes import Node
from tests.lab import spaces
from tests.node.test_doctor_wires import ip, program, said
from tests.plan.samples import knobs
from tests.plan.samples import ring as ring_of
from tests.plan.test_ring import DEVICES, leads_to

pytestmark = pytest.mark.skipif(os.geteuid() != 0, reason="makes network namespaces")

NAMES = tuple(f"ring-{os.getpid()}-{number}" for number in (1, 2, 3))
#: Connects to argv[1], and says from where.
CONNECT = "import socket, sys; print(socket.create_connection((sys.argv[1], 8001), timeout=2).getsockname()[0])"
SERVE = """
import socket, sys
server = socket.create_server((sys.argv[1], 8001))
print(flush=True)
while True:
    server.accept()
"""


@pytest.fixture
def cabled() -> Iterator[None]:
    """Port 0 of each to port 1 of the next one, as NVIDIA has it; all ports are down."""
    with spaces.made(*NAMES):
        for index, name in enumerate(NAMES):
            for near, far in zip(DEVICES[:2], DEVICES[2:], strict=True):
                ends = ("netns", name, "type", "veth", "peer", "name", far, "netns", NAMES[(index + 1) % 3])
                ip("link", "add", near, *ends)
        yield


def addressed() -> list[Node]:
    """Three nodes as the plan's files would have them, with the strictest filter of ways back."""
    everyone = ring_of(knobs())
    for name, node in zip(NAMES, everyone, strict=True):
        strict = "for each in /proc/sys/net/ipv4/conf/*/rp_filter; do echo 1 >$each; done"
        ip("netns", "exec", name, "sh", "-c", strict)
        netplan, _, sysctl = fabric_files(knobs(), node)
        for setting, value in (line.split(" = ") for line in sysctl.content.splitlines() if " = " in line):
            each_of_them = f"for each in /proc/sys/{setting}; do echo {value} >$each; done"
            ip("netns", "exec", name, "sh", "-c", each_of_them)
        entries = yaml.safe_load(netplan.content)["network"]["ethernets"]
        for device, entry in entries.items():
            ip("-n", name, "link", "set", device, "mtu", str(entry["mtu"]), "up")
            for each in entry["addresses"]:
                ip("-n", name, "addr", "add", each, "dev", device)
        for device, entry in entries.items():
            for each in entry["routes"]:
                ip("-n", name, "route", "add", each["to"], "via", each["via"], "dev", device)
    return everyone


def way(name: str, address: str) -> str:
    """The device that the kernel takes."""
    told = subprocess.run(["ip", "-n", name, "-j", "route", "get", address], capture_output=True, check=True).stdout
    return str(json.loads(told)[0]["dev"])


def connects(name: str, address: str) -> str:
    """From which address, where somebody answers; empty: nobody."""
    argv = ["ip", "netns", "exec", name, sys.executable, "-c", CONNECT, address]
    done = subprocess.run(argv, capture_output=True, text=True, check=False)
    return done.stdout.strip()


def test_a_ring_is_heard_on_ports_that_were_down_and_are_so_again(cabled: None) -> None:
    asked = {name: program(name, "doctor.cables", node=name, run="r", seconds=3.0, wake=True) for name in NAMES}
    heard = {name: said(each)["heard"] for name, each in asked.items()}
    assert ring.found(heard, dict.fromkeys(NAMES, DEVICES)) == dict.fromkeys(NAMES, DEVICES)
    assert ring.gap(heard, NAMES, NAMES) == []
    assert not any(link["up"] for name in NAMES for link in said(program(name, "links")).values())
    # The doctor's own look brings nothing up, so it hears nothing here.
    asleep = [said(program(name, "doctor.cables", node=name, run="r", seconds=0.3)) for name in NAMES]
    assert asleep == [{"ports": [], "heard": []}] * 3


def test_each_address_is_reached_over_the_cable_between(cabled: None) -> None:
    everyone = addressed()
    for (name, mine), (_, other) in permutations(zip(NAMES, everyone, strict=True), 2):
        direct = [device for device, _ in mine.toward(other)]
        for address in other.rail_addresses:
            assert way(name, address) == leads_to(mine, address) and way(name, address) in direct
    for name, node in zip(NAMES, everyone, strict=True):
        server = subprocess.Popen(
            ["ip", "netns", "exec", name, sys.executable, "-c", SERVE, node.fabric], stdout=subprocess.PIPE
        )
        try:
            assert server.stdout and server.stdout.readline()
            for caller, there in zip(NAMES, everyone, strict=True):
                if caller != name:
                    assert connects(caller, node.fabric) in [address for _, address in node.toward(there)]
        finally:
            server.kill()
            server.wait()


def test_a_node_is_reached_at_its_first_rail_s_address_with_that_cable_out(cabled: None) -> None:
    head, _, third = addressed()
    ip("-n", NAMES[1], "link", "set", DEVICES[2], "down")
    server = subprocess.Popen(
        ["ip", "netns", "exec", NAMES[0], sys.executable, "-c", SERVE, head.fabric], stdout=subprocess.PIPE
    )
    try:
        assert server.stdout and server.stdout.readline()
        assert connects(NAMES[2], head.fabric) in third.rail_addresses
        assert connects(NAMES[1], head.fabric) == ""
    finally:
        server.kill()
        server.wait()


def test_the_look_knows_the_addresses_and_routes_of_the_plan(cabled: None) -> None:
    looks = "import json; from operations.node.network import links; print(json.dumps(links.routes()))"
    for name, node in zip(NAMES, addressed(), strict=True):
        argv = ["ip", "netns", "exec", name, sys.executable, "-c", looks]
        routes = json.loads(subprocess.run(argv, capture_output=True, check=True).stdout)
        links = said(program(name, "links"))
        for rail in rails_of(knobs(), node):
            assert rail.route and routes[rail.device] == [" via ".join(rail.route)]
            assert links[rail.device]["addresses"] == [rail.address]
        assert ring.addressed(links, knobs().rail_subnets) == dict(zip(node.subnets, DEVICES, strict=True))
