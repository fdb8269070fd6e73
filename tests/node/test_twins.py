"""Rails whose two netdevs are one L2, between namespaces: who answers for an address, and what the proof says of it."""

from __future__ import annotations

import json
import os
import shutil
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from operations.node.network.proof import GRACE_S
from operations.paths import ARP, NIC_NETDEVS
from operations.plan.cluster.fabric import fabric_files
from operations.plan.cluster.nodes import Node
from tests.node.spaces import wire
from tests.node.twins import FINE, PORTS, RAILS, Pair
from tests.plan.samples import knobs

pytestmark = [
    pytest.mark.skipif(os.geteuid() != 0, reason="makes network namespaces"),
    pytest.mark.skipif(not shutil.which("ping"), reason="needs ping (apt install iputils-ping)"),
]


@pytest.fixture
def pair(tmp_path: Path) -> Iterator[Pair]:
    found = Pair(tmp_path)
    yield found
    found.close()


def test_every_look_up_ends_at_the_right_half_and_the_proof_sees_one_that_does_not(pair: Pair) -> None:
    """As the kernel is delivered the other half answers as well: no ping is lost, and the proof says it."""
    assert pair.looked_up(10) < 20
    for number, told in enumerate(pair.prove()):
        assert told["problems"] == [] and len(told["strangers"]) == 2
        line = f"{RAILS[0]} -> spark-{2 - number} (192.168.177.{12 - number}): {pair.mac(1 - number, 1)} answers, its "
        assert told["strangers"][0] == line + f"netdev is {pair.mac(1 - number, 0)}"
    pair.set_arp()
    assert pair.looked_up(40) == 80
    assert pair.prove() == [FINE, FINE]


def test_a_port_that_somebody_has_is_answered_by_them(pair: Pair) -> None:
    pair.set_arp()
    pair.nodes[1].listen(("tcp", "0.0.0.0", PORTS[0]))
    assert pair.prove() == [FINE, FINE]


def test_a_rail_that_is_down_is_a_problem_and_not_the_end(pair: Pair) -> None:
    pair.set_arp()
    pair.nodes[1].run("ip", "link", "set", RAILS[0], "down")
    one, other = pair.prove()
    assert one["problems"] == [f"{RAILS[0]} -> spark-2 (192.168.177.12): nothing does"]
    assert other["problems"] == [f"{RAILS[0]} -> spark-1 (192.168.177.11): nothing does"]
    assert one["silent"] == other["silent"] == [] and one["strangers"] == other["strangers"] == []


def test_the_file_of_the_plan_names_every_setting_of_every_rail() -> None:
    node = Node("spark-1", 0, "10.0.0.1", "/root", rails=("enp1s0f0np0.100", RAILS[1]), subnets=knobs().rail_subnets)
    (sysctl,) = (file.content for file in fabric_files(knobs(), node) if "/sysctl.d/" in file.path)
    assert [line for line in sysctl.splitlines() if not line.startswith("#")] == [
        f"net/ipv4/conf/{each}/{name} = {value}" for each in (NIC_NETDEVS, *node.rails) for name, value in ARP.items()
    ]


def test_a_second_port_in_the_same_switch_answers_for_no_rail(pair: Pair) -> None:
    """It has a link-local address, as NVIDIA's guide for two Sparks gives it, or none of Tandem's."""
    second, far = "enp1s0f1np1", "second"
    wire(pair.nodes[1], second, pair.cable, far)
    pair.cable.run("ip", "link", "set", far, "master", "l2", "up")
    pair.nodes[1].address(second, "169.254.7.7/16")
    (link,) = json.loads(pair.nodes[1].run("ip", "-j", "link", "show", second))
    assert all(link["address"] in line for line in pair.prove()[0]["strangers"])
    pair.set_arp()
    assert pair.prove() == [FINE, FINE]
    assert pair.nodes[1].run("cat", "/proc/sys/net/ipv4/conf/all/arp_ignore") == "0\n"


def test_udev_sets_it_for_a_netdev_that_appears_whatever_port_it_is(pair: Pair) -> None:
    pair.set_arp()
    for device in ("enP2p1s0f1np1", "enP7s7"):
        pair.nodes[0].run("ip", "link", "add", device, "type", "bridge")
        conf = str(pair.folder / "arp.conf")
        pair.nodes[0].run("/usr/lib/systemd/systemd-sysctl", f"--prefix=/net/ipv4/conf/{device}", conf)
    assert pair.nodes[0].run("cat", "/proc/sys/net/ipv4/conf/enP2p1s0f1np1/arp_ignore") == "1\n"
    assert pair.nodes[0].run("cat", "/proc/sys/net/ipv4/conf/enP7s7/arp_ignore") == "0\n"


def test_arp_that_is_set_while_the_proof_asks_is_waited_for(pair: Pair) -> None:
    def soon() -> None:
        time.sleep(3)
        pair.set_arp()

    assert pair.prove(patience_s=20, meanwhile=soon) == [FINE, FINE]


def test_a_node_whose_proof_begins_late_is_waited_for(pair: Pair) -> None:
    pair.set_arp()
    assert pair.prove(patience_s=20, late_s=GRACE_S + 2) == [FINE, FINE]


def test_seventeen_nodes_that_take_no_connection_are_named_and_not_waited_for(pair: Pair) -> None:
    """More calls than threads for frames: each goes on until all frames are through."""
    own = dict(zip(RAILS, pair.planned[0].rail_addresses, strict=True))
    peers = {
        f"spark-{i}": [[rail, f"192.168.{net}.{10 + i}"] for rail, net in zip(RAILS, (177, 178), strict=True)]
        for i in range(2, 19)
    }
    macs = {address: "" for ways in peers.values() for _, address in ways}
    proof = pair.start(0, "prove", peers=peers, mtu=1500, own=own, macs=macs, ports=PORTS)
    try:
        told = json.loads(proof.communicate(timeout=90)[0])
    finally:
        proof.kill()
    assert len(told["problems"]) == 32 and len(told["silent"]) == 2
