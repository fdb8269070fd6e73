"""The lab's wires, with real interfaces, in a world of their own: a lab that is booted meanwhile is not touched."""

from __future__ import annotations

import json
import os
import shutil
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.lab.cables import Port, bridges, far_ends
from tests.lab.settings import LINKS, PORT_0, LabNode
from tests.lab.world import NODES, World
from tests.support.waiting import comes


@pytest.fixture
def pair(tmp_path: Path) -> Iterator[World]:
    """Two nodes on a cable, their systems up."""
    yield from _world(tmp_path, "cable", 2)


@pytest.fixture
def ring(tmp_path: Path) -> Iterator[World]:
    yield from _world(tmp_path, "ring", 3)


def _world(home: Path, wiring: str, count: int) -> Iterator[World]:
    if os.geteuid():
        pytest.skip("namespaces need root")
    if not shutil.which("nft"):
        pytest.skip("a boot clears nftables (apt install nftables)")
    world = World(home, wiring, count)
    try:
        world.up()
        world.bring_all_up()
        yield world
    finally:
        world.end()


BOTH = ((0, "rail0"), (1, "rail0"))


def test_an_interface_that_goes_down_takes_the_other_side_s_carrier(pair: World) -> None:
    pair.come_to([True, True], *BOTH)
    pair.bring_up(NODES[1], "rail0", "down")
    pair.come_to([False, False], *BOTH)
    assert pair.has(NODES[0], "rail0", "UP")
    # Its twin is a cable's other half, and not touched; the second port has nothing plugged in.
    assert pair.carriers((0, "rail1"), (1, "rail1"), (0, "rail2"), (1, "rail3")) == [True, True, False, False]
    pair.bring_up(NODES[1], "rail0")
    pair.come_to([True, True], *BOTH)


def test_a_cut_is_seen_at_both_ends_and_sets_neither_down(pair: World) -> None:
    pair.come_to([True, True], *BOTH)
    pair.lab("cut", "spark-1:rail0")
    assert pair.carriers(*BOTH) == [False, False]
    assert [pair.has(node, "rail0", "UP") for node in NODES[:2]] == [True, True]
    # An interface that comes and goes does not put the cable back.
    pair.bring_up(NODES[1], "rail0", "down")
    pair.bring_up(NODES[1], "rail0")
    time.sleep(0.3)
    assert pair.carriers(*BOTH) == [False, False]
    # Either end heals it.
    pair.lab("heal", "spark-2:rail0")
    pair.come_to([True, True], *BOTH)


def test_a_node_without_power_takes_every_carrier_and_a_reboot_begins_with_nothing(pair: World) -> None:
    ends = ((0, "rail0"), (0, "rail1"))
    pair.come_to([True, True], *ends)
    pair.python("from tests.lab import network, settings; network.go_dark(settings.LabNode(1))")
    assert pair.carriers(*ends) == [False, False]
    pair.bring_all_up()
    pair.come_to([True, True], *ends)
    inside = ("ip", "netns", "exec", NODES[1].namespace)
    pair.run(*inside, "nft", "add table inet tandem")
    pair.python("from tests.lab import settings, veths; veths.begin_anew(settings.LabNode(1))")
    pair.come_to([False, False], *ends)
    assert pair.run(*inside, "nft", "list", "tables") == ""


def test_after_both_were_off_the_first_one_up_is_remembered(pair: World) -> None:
    pair.come_to([True, True], *BOTH)
    for node in NODES[:2]:
        pair.bring_up(node, "rail0", "down")
    pair.come_to([False, False], *BOTH)
    # Both outer ends are down: nothing in the fabric changes when one comes up, only in its own namespace.
    time.sleep(0.3)
    pair.bring_up(NODES[0], "rail0")
    time.sleep(0.3)
    assert pair.carriers(*BOTH) == [False, False]
    pair.bring_up(NODES[1], "rail0")
    pair.come_to([True, True], *BOTH)


def test_a_watcher_that_was_killed_is_replaced_by_the_next_up_and_gone_after_down(pair: World) -> None:
    (first,) = pair.watchers()
    pair.come_to([True, True], *BOTH)
    pair.run("kill", "-9", str(first))
    comes(lambda: not pair.watchers(), 5)
    pair.bring_up(NODES[1], "rail0", "down")
    time.sleep(0.3)
    # Nobody has told the other side; its own veth's carrier is all that it sees.
    assert pair.watchers() == [] and pair.carriers(*BOTH) == [True, False]
    pair.up()
    assert len(pair.watchers()) == 1 and pair.watchers() != [first]
    pair.come_to([False, False], *BOTH)
    pair.bring_up(NODES[1], "rail0")
    pair.come_to([True, True], *BOTH)
    pair.up()
    assert len(pair.watchers()) == 1
    pair.python("from tests.lab import watch; watch.end()")
    assert pair.watchers() == []


def test_a_ring_joins_each_node_s_port_1_to_the_next_one_s_port_0(ring: World) -> None:
    every = [(index, link) for index in range(3) for link in LINKS]
    ring.come_to([True] * len(every), *every)
    ring.lab("cut", "spark-2:rail2")
    assert [port for port in every if not ring.carriers(port)[0]] == [(1, "rail2"), (2, "rail0")]
    ring.lab("heal", "spark-2:rail2")
    ring.bring_up(NODES[0], "rail0", "down")
    ring.come_to([False, True, True, True], (2, "rail2"), (2, "rail3"), (1, "rail0"), (0, "rail2"))


def test_a_jumbo_frame_goes_through_a_cable(ring: World) -> None:
    ends = (2, "rail2"), (0, "rail0")
    ring.come_to([True, True], *ends)
    for number, (index, link) in enumerate(ends):
        ring.run("ip", "-n", NODES[index].namespace, "link", "set", LINKS[link], "mtu", "9000")
        ring.run("ip", "-n", NODES[index].namespace, "addr", "add", f"10.0.0.{number + 1}/24", "dev", LINKS[link])
    received = ring.received(NODES[0], "rail0")
    send = "import socket as s; a = s.socket(s.AF_INET, s.SOCK_DGRAM); a.setsockopt(s.SOL_SOCKET, s.SO_BROADCAST, 1); "
    send += "a.setsockopt(s.IPPROTO_IP, 10, 2); a.sendto(bytes(8972), ('10.0.0.255', 9))"
    ring.run("ip", "netns", "exec", NODES[2].namespace, sys.executable, "-c", send)
    assert ring.received(NODES[0], "rail0") - received > 8972


def test_up_with_another_wiring_rewires_under_the_nodes(pair: World) -> None:
    pair.come_to([True, True], *BOTH)
    pair.lab("cut", "spark-1:rail1")
    pair.wire("switch")
    pair.up()
    pair.bring_up(NODES[1], "rail0", "down")
    time.sleep(0.3)
    # A switch keeps the other side's carrier; and a cable that was cut is whole again.
    assert pair.carriers(*BOTH, (0, "rail1"), (1, "rail1")) == [True, False, True, True]
    pair.lab("cut", "spark-1:rail1")
    assert pair.carriers((0, "rail1"), (1, "rail1")) == [False, True]
    pair.wire("cable")
    pair.up()
    pair.come_to([False, False, True, True], *BOTH, (0, "rail1"), (1, "rail1"))


def test_a_link_that_is_not_there_or_not_plugged_in_is_named(pair: World) -> None:
    for word, said in (
        ("rail9", "no link `rail9`: the links of a node are mgmt, rail0, rail1, rail2, rail3"),
        ("spark-1:rail2", "nothing is plugged into spark-1:rail2: with WIRING=cable a node has rail0 and rail1"),
    ):
        with pytest.raises(AssertionError, match=said):
            pair.lab("cut", word)


def test_who_is_joined_to_whom() -> None:
    assert far_ends("switch", NODES) == {}
    assert bridges("switch", NODES) == {"switch": [Port(node, link) for node in NODES for link in PORT_0]}
    cables = far_ends("cable", NODES[:2])
    assert cables[Port(NODES[0], "rail1")] == Port(NODES[1], "rail1") and len(cables) == 4
    around = far_ends("ring", NODES)
    assert around[Port(NODES[2], "rail3")] == Port(NODES[0], "rail1") and len(around) == 12
    # Both halves of a port are one L2.
    (one_cable,) = bridges("cable", NODES[:2]).values()
    assert sorted(map(str, one_cable)) == [f"spark-{number}:rail{half}" for number in (1, 2) for half in (0, 1)]
    assert sorted(len(ends) for ends in bridges("ring", NODES).values()) == [4, 4, 4]
    # A name of an interface has at most 15 characters.
    assert all(len(name) < 16 for name in bridges("ring", [LabNode(8), *NODES]))


def test_a_netdev_that_is_taken_away_comes_back_as_another_device(pair: World) -> None:
    """As a ConnectX-7's when its cable is pulled: not without carrier, but gone."""
    pair.come_to([True, True], *BOTH)
    show = ("ip", "-n", NODES[1].namespace, "-j", "link")
    before = {each["ifname"]: each["ifindex"] for each in json.loads(pair.run(*show))}
    pair.lab("take", "spark-2:rail0")
    assert set(before) - {each["ifname"] for each in json.loads(pair.run(*show))} == {LINKS["rail0"]}
    pair.come_to([False], (0, "rail0"))
    assert pair.carriers((0, "rail1"), (1, "rail1")) == [True, True]
    # Twice is as good as once.
    pair.lab("take", "spark-2:rail0")
    pair.lab("give", "spark-2:rail0")
    after = {each["ifname"]: each["ifindex"] for each in json.loads(pair.run(*show))}
    assert set(after) == set(before) and after[LINKS["rail0"]] != before[LINKS["rail0"]]
    assert not pair.has(NODES[1], "rail0", "UP")
    pair.bring_up(NODES[1], "rail0")
    pair.come_to([True, True], *BOTH)


def test_a_boot_begins_without_the_routes_of_before(pair: World) -> None:
    inside = ("ip", "-n", NODES[1].namespace, "route")
    pair.run(*inside, "add", "local", "192.168.177.12", "dev", "lo", "table", "local", "metric", "4000000000")
    pair.run(*inside, "add", "unreachable", "192.168.177.0/24")
    pair.python("from tests.lab import settings, veths; veths.begin_anew(settings.LabNode(1))")
    left = pair.run(*inside, "show", "table", "all")
    assert "192.168.177" not in left and "127.0.0.1" in left
