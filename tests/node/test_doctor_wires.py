"""The doctor's looks between nodes, over cables (veth) between namespaces: who hears whom, how much gets through."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from typing import Any

import pytest

from operations.plan.doctor import diagnose
from operations.plan.doctor.symptom import Seen
from operations.plan.doctor.ways import between
from tests.lab import spaces

pytestmark = pytest.mark.skipif(os.geteuid() != 0, reason="makes network namespaces")

RAILS = ("enp1s0f0np0", "enP2p1s0f0np0")
ONE, OTHER = NODES = (f"wires-{os.getpid()}-1", f"wires-{os.getpid()}-2")
#: In a namespace /sys/class/net is still this machine's: `carrier` is asked of `ip` instead.
PROGRAM = """
import importlib, json, subprocess, sys
from operations.node.network import links
def of_namespace():
    told = {}
    for link in json.loads(subprocess.run(["ip", "-j", "addr"], capture_output=True, check=True).stdout):
        if links.PORT_NAME.match(link["ifname"]):
            told[link["ifname"]] = {
                "carrier": "LOWER_UP" in link["flags"],
                "up": "UP" in link["flags"],
                "mtu": link["mtu"],
                "addresses": [f"{a['local']}/{a['prefixlen']}" for a in link["addr_info"] if a["family"] == "inet"],
                "rdma": None,
                "driver": "veth",
            }
    return told
links.links = of_namespace
if sys.argv[1] == "links":
    print(json.dumps(of_namespace()))
else:
    module, _, function = sys.argv[1].partition(":")
    program = getattr(importlib.import_module("operations.node." + module), function or "main")
    print(json.dumps(program(**json.loads(sys.argv[2]))))
"""


def ip(*words: str) -> None:
    subprocess.run(["ip", *words], check=True, capture_output=True)


def program(node: str, name: str, /, **arguments: Any) -> subprocess.Popen[str]:
    """A node program in a namespace, held by its standard input."""
    argv = ["ip", "netns", "exec", node, sys.executable, "-c", PROGRAM, name, json.dumps(arguments)]
    return subprocess.Popen(argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)


def said(process: subprocess.Popen[str]) -> Any:
    out, _ = process.communicate(timeout=30)
    return json.loads(out.splitlines()[-1])


def cable(one: tuple[str, str], other: tuple[str, str]) -> None:
    """Between two ports, both up."""
    ip("link", "add", one[1], "netns", one[0], "type", "veth", "peer", "name", other[1], "netns", other[0])
    for node, device in (one, other):
        ip("-n", node, "link", "set", device, "mtu", "9000", "up")


@pytest.fixture
def nodes() -> Iterator[None]:
    """Two hosts without a port."""
    with spaces.made(*NODES):
        yield


def straight() -> None:
    for rail in RAILS:
        cable((ONE, rail), (OTHER, rail))


def address() -> None:
    """As a deploy gives them out: a subnet for each rail."""
    for index, node in enumerate(NODES):
        for place, rail in enumerate(RAILS):
            ip("-n", node, "addr", "add", f"192.168.{177 + place}.{11 + index}/24", "dev", rail)


def examined() -> Seen:
    """Both nodes have looked for each other."""
    looks: Any = {node: {"links": said(program(node, "links"))} for node in NODES}
    running = {node: program(node, "doctor.cables", node=node, run="r", seconds=1.5) for node in NODES}
    cables = {node: said(process) for node, process in running.items()}
    return Seen(looks=looks, cables=cables, rails=dict.fromkeys(NODES, RAILS), skipped=("net",))


def symptoms(seen: Seen) -> list[str]:
    return [each.seen for each in diagnose(seen, {}) if each.severity == "bad"]


@pytest.mark.usefixtures("nodes")
def test_straight_cables_are_found_without_an_address() -> None:
    straight()
    seen = examined()
    for node, peer in (NODES, NODES[::-1]):
        assert set(seen.cables[node]["ports"]) == set(RAILS)
        assert {(h["device"], h["node"], h["from"]) for h in seen.cables[node]["heard"]} == {
            (rail, peer, rail) for rail in RAILS
        }
    assert symptoms(seen) == []


@pytest.mark.usefixtures("nodes")
def test_crossed_cables_are_seen() -> None:
    cable((ONE, RAILS[0]), (OTHER, RAILS[1]))
    cable((ONE, RAILS[1]), (OTHER, RAILS[0]))
    address()
    told = symptoms(examined())
    assert any(f"crossed: {RAILS[0]} of {ONE} meets {RAILS[1]} of {OTHER}" in each for each in told), told


@pytest.mark.usefixtures("nodes")
def test_an_unplugged_port_and_a_wrong_mtu_are_seen() -> None:
    straight()
    address()
    ip("-n", OTHER, "link", "set", RAILS[1], "down")
    ip("-n", ONE, "link", "set", RAILS[0], "mtu", "1500")
    told = symptoms(examined())
    assert f"the rail {RAILS[1]} has no carrier" in told and f"the rail {RAILS[1]} is down" in told
    assert f"{RAILS[0]} has MTU 1500, not 9000" in told


@pytest.mark.usefixtures("nodes")
def test_a_loop_and_a_word_of_another_run() -> None:
    """One cable between two ports of one node; and frames that are not of this look are nobody's."""
    cable((ONE, RAILS[0]), (ONE, "enp1s0f1np1"))
    cable((ONE, RAILS[1]), (OTHER, RAILS[1]))
    stranger = program(OTHER, "doctor.cables", node="stranger", run="another", seconds=3)
    seen = examined()
    said(stranger)
    assert any(f"{RAILS[0]} hears another port of its own node" in each for each in symptoms(seen))
    assert "stranger" not in json.dumps(seen.cables)


def streams(seconds: float) -> list[Any]:
    """Measured as the verb does it: a server on the one, held by its standard input, and a client on the other."""
    links = {node: said(program(node, "links")) for node in NODES}
    ways = between(links[ONE], links[OTHER])
    server = program(OTHER, "doctor.streams:serve", addresses=[way["address"] for way in ways])
    assert server.stdout and server.stdin
    try:
        ports = json.loads(server.stdout.readline())["ports"]
        targets = [{**way, "port": port} for way, port in zip(ways, ports, strict=True)]
        told: list[Any] = said(program(ONE, "doctor.streams:measure", targets=targets, seconds=seconds))
    finally:
        # The tether is let go: nothing stays that listens.
        server.stdin.close()
        server.wait(timeout=5)
        server.stdout.close()
    return told


@pytest.mark.usefixtures("nodes")
def test_each_rail_is_measured_both_ways_and_nothing_stays_behind() -> None:
    straight()
    address()
    told = streams(0.5)
    assert [(each["device"], each["way"]) for each in told] == [(rail, way) for rail in RAILS for way in ("out", "in")]
    assert all(each["gbit_s"] > 0.5 for each in told), told


@pytest.mark.usefixtures("nodes")
def test_a_rail_that_is_held_carries_less_than_its_twin() -> None:
    straight()
    address()
    shape = ("tbf", "rate", "50mbit", "burst", "1mb", "latency", "100ms")
    subprocess.run(["tc", "-n", ONE, "qdisc", "add", "dev", RAILS[1], "root", *shape], check=True)
    told: Any = [{**each, "node": ONE, "peer": OTHER, "peer_device": each["device"]} for each in streams(1.0)]
    looks: Any = {node: {} for node in NODES}
    bad = [each.seen for each in diagnose(Seen(looks=looks, streams=told), {}) if each.severity == "bad"]
    assert len(bad) == 1 and f"{ONE} {RAILS[1]} -> {OTHER} {RAILS[1]} carries" in bad[0], (bad, told)


@pytest.mark.usefixtures("nodes")
def test_a_rail_that_nothing_gets_through_is_a_problem_and_not_the_end() -> None:
    straight()
    address()
    links = {node: said(program(node, "links")) for node in NODES}
    targets = [{**way, "port": 9} for way in between(links[ONE], links[OTHER])]
    told = said(program(ONE, "doctor.streams:measure", targets=targets, seconds=0.2))
    assert len(told) == 4 and all("refused" in each["problem"] for each in told)
