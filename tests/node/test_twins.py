"""Rails whose two netdevs are one L2, between namespaces: who answers for an address, and what the proof says of it;
and the owner's firewall, by the kernel's own verdict.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from operations.node.network import firewall
from operations.paths import ARP, NIC_NETDEVS
from operations.plan.fabric import fabric_files, inlets, proof_ports
from operations.plan.nodes import Node
from tests.node.spaces import Space, wire
from tests.plan.samples import knobs

pytestmark = [
    pytest.mark.skipif(os.geteuid() != 0, reason="makes network namespaces"),
    pytest.mark.skipif(not shutil.which("ping"), reason="needs ping (apt install iputils-ping)"),
]

ROOT = Path(__file__).parents[2]
RAILS = ("enp1s0f0np0", "enP2p1s0f0np0")
PORTS = proof_ports(knobs())
PROGRAM = """
import json, sys
from pathlib import Path
from operations.node.network import firewall, proof
firewall.UFW, firewall.OPEN = Path(sys.argv[3]), Path(sys.argv[4])
program = {"prove": proof.prove, "shut": firewall.shut, "tries": firewall.tries}[sys.argv[1]]
print(json.dumps(program(**json.loads(sys.argv[2]))))
"""
#: What the owner's ufw makes of its defaults, in short: answers and the login come in, nothing else.
UFW_RULES = """*filter
:INPUT DROP [0:0]
:FORWARD DROP [0:0]
:OUTPUT ACCEPT [0:0]
-A INPUT -i lo -j ACCEPT
-A INPUT -m conntrack --ctstate RELATED,ESTABLISHED -j ACCEPT
-A INPUT -p icmp -j ACCEPT
{allowed}-A INPUT -p tcp -m tcp --dport 22 -j ACCEPT
COMMIT
"""
NFT_RULES = """table inet filter {
    chain input {
        type filter hook input priority 0; policy drop;
        iif "lo" accept
        ct state established,related accept
        icmp type echo-request accept
        tcp dport 22 accept
    }
}
"""


class Pair:
    """Two nodes on one cable: four netdevs on one L2."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.cable, *self.nodes = (Space() for _ in range(3))
        self.planned = [
            Node(f"spark-{i + 1}", i, "10.0.0.1", "/root", rails=RAILS, subnets=knobs().rail_subnets) for i in (0, 1)
        ]
        self.cable.run("ip", "link", "add", "l2", "type", "bridge")
        self.cable.run("ip", "link", "set", "l2", "up")
        for space, node in zip(self.nodes, self.planned, strict=True):
            for half, (rail, address) in enumerate(zip(RAILS, node.rail_addresses, strict=True)):
                far = f"node{node.index}half{half}"
                wire(space, rail, self.cable, far)
                self.cable.run("ip", "link", "set", far, "master", "l2", "up")
                space.address(rail, f"{address}/24")

    def mac(self, number: int, half: int) -> str:
        found = json.loads(self.nodes[number].run("ip", "-j", "link", "show", RAILS[half]))
        return str(found[0]["address"])

    def set_arp(self) -> None:
        """What a deploy does with the file of the plan."""
        for space, node in zip(self.nodes, self.planned, strict=True):
            (sysctl,) = (file for file in fabric_files(knobs(), node) if "/sysctl.d/" in file.path)
            self.folder.joinpath("arp.conf").write_text(sysctl.content)
            space.run("/usr/lib/systemd/systemd-sysctl", str(self.folder / "arp.conf"))

    def looked_up(self, times: int) -> int:
        """How many look-ups of the other node's rails, by the kernel itself, end at the right netdev."""
        right = 0
        for _ in range(times):
            for half, address in enumerate(self.planned[1].rail_addresses):
                self.nodes[0].run("ip", "neigh", "flush", "all")
                assert self.nodes[0].run("ping", "-c", "1", "-W", "1", "-q", address)
                (entry,) = json.loads(self.nodes[0].run("ip", "-j", "neigh", "show", "to", address))
                right += entry["lladdr"] == self.mac(1, half)
        return right

    def prove(self, *, patience_s: float = 0, meanwhile: Callable[[], None] = lambda: None) -> list[Any]:
        """What both nodes say; `meanwhile`: what happens while they ask."""
        running = []
        for number in (0, 1):
            mine, other = self.planned[number], self.planned[1 - number]
            arguments: dict[str, Any] = {
                "peers": {other.name: [list(way) for way in mine.toward(other)]},
                "mtu": 1500,
                "own": dict(zip(RAILS, mine.rail_addresses, strict=True)),
                "macs": {address: self.mac(1 - number, half) for half, address in enumerate(other.rail_addresses)},
                "ports": PORTS,
                "patience_s": patience_s,
            }
            running.append(self.start(number, "prove", **arguments))
        meanwhile()
        return [json.loads(each.communicate(timeout=60)[0]) for each in running]

    def start(self, number: int, program: str, ufw: str = "/nowhere", **arguments: Any) -> subprocess.Popen[str]:
        argv = [sys.executable, "-c", PROGRAM, program, json.dumps(arguments), ufw, str(self.folder / "open")]
        return subprocess.Popen(self.nodes[number].argv(*argv), stdout=subprocess.PIPE, text=True, cwd=ROOT)

    def close(self) -> None:
        for each in (*self.nodes, self.cable):
            each.close()


@pytest.fixture
def pair(tmp_path: Path) -> Iterator[Pair]:
    found = Pair(tmp_path)
    yield found
    found.close()


FINE: dict[str, Any] = {"problems": [], "strangers": [], "silent": [], "shut": {}}


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


def fire(pair: Pair, allowed: str = "") -> None:
    """The second node's owner has a firewall."""
    rules = UFW_RULES.format(allowed=allowed)
    argv = pair.nodes[1].argv("iptables-restore")
    subprocess.run(argv, input=rules, text=True, check=True)


def test_a_firewall_that_lets_frames_through_and_no_connection_is_named_with_its_line(pair: Pair) -> None:
    pair.set_arp()
    fire(pair)
    one, other = pair.prove()
    assert one["problems"] == [] and one["shut"] == {}
    ports = ", ".join(map(str, PORTS))
    assert one["silent"][0] == f"{RAILS[0]} -> spark-2 (192.168.177.12): no TCP connection to port {ports}"
    assert other["silent"] == [] and other["shut"]["by"] == "iptables' chain INPUT"
    assert other["shut"]["device"] == ", ".join(RAILS)
    assert other["shut"]["remedy"].startswith("sudo iptables -I INPUT -i ")
    fire(pair, "".join(f"-A INPUT -i {rail} -j ACCEPT\n" for rail in RAILS))
    assert pair.prove() == [FINE, FINE]


LINK = {"carrier": True, "up": True, "mtu": 9000, "addresses": [], "routes": [], "mac": "", "driver": "", "rdma": None}
OFFICE = {"device": "office0", "address": "10.99.0.12/24"}


def inlets_of(pair: Pair, **changes: Any) -> Any:
    links = dict.fromkeys(RAILS, LINK) | {"enp1s0f1np1": LINK | {"carrier": False}}
    return json.loads(
        pair.start(
            1, "tries", links=links, office=OFFICE, **inlets(knobs(**{"proxy_bind": "all", **changes}), 1)
        ).communicate()[0]
    )


def found_shut(pair: Pair, tmp_path: Path, **changes: Any) -> list[Any]:
    (tmp_path / "ufw.conf").write_text("# /etc/ufw/ufw.conf\nENABLED=yes\n")
    arguments = {"wanted": inlets_of(pair, **changes)}
    told: list[Any] = json.loads(pair.start(1, "shut", str(tmp_path / "ufw.conf"), **arguments).communicate()[0])
    return told


def test_before_anything_is_sent_a_copy_of_the_rules_says_what_they_shut(pair: Pair, tmp_path: Path) -> None:
    """Every rail from every subnet that it may come to have, and the door; a port without a cable is not asked for."""
    assert found_shut(pair, tmp_path) == []
    fire(pair)
    told = found_shut(pair, tmp_path)
    assert {(each["device"], each["own"]) for each in told if not each["is_door"]} == {
        (rail, f"192.168.{net}.12/24") for rail in RAILS for net in (177, 178)
    }
    assert {each["remedy"] for each in told if not each["is_door"]} == {
        f"sudo ufw allow in on {rail}" for rail in RAILS
    }
    (door,) = (each for each in told if each["is_door"])
    assert door["remedy"] == "sudo ufw allow in on office0 to any port 8000 proto tcp" and door["by"] == "ufw"
    # The remedies are followed; and by the network as well.
    fire(pair, f"-A INPUT -i {RAILS[0]} -j ACCEPT\n-A INPUT -s 192.168.178.0/24 -j ACCEPT\n")
    left = found_shut(pair, tmp_path)
    assert [(each["device"], each["own"]) for each in left if not each["is_door"]] == [(RAILS[1], "192.168.177.12/24")]
    # Nothing of the trial is left here.
    assert "dummy" not in pair.nodes[1].run("ip", "-d", "link")


def test_in_solo_a_shut_rail_is_nobody_s_business_and_a_proxy_on_loopback_has_no_door(
    pair: Pair, tmp_path: Path
) -> None:
    fire(pair)
    assert [each["is_door"] for each in found_shut(pair, tmp_path, topology="solo")] == [True]
    assert found_shut(pair, tmp_path, topology="solo", proxy_bind="loopback") == []


def test_rules_of_nftables_are_copied_as_well_and_tandem_s_walls_are_not(pair: Pair, tmp_path: Path) -> None:
    argv = pair.nodes[1].argv("nft", "--file", "-")
    walls = "table inet tandem {\n chain input {\n type filter hook input priority 0; policy drop;\n }\n}\n"
    subprocess.run(argv, input=walls, text=True, check=True)
    assert found_shut(pair, tmp_path) == []
    subprocess.run(argv, input=NFT_RULES, text=True, check=True)
    told = json.loads(pair.start(1, "shut", wanted=inlets_of(pair)).communicate()[0])
    assert len(told) == 5
    assert told[0]["by"] == "nftables' table inet filter"
    assert told[0]["remedy"].startswith(f"sudo nft insert rule inet filter input iifname {told[0]['device']} accept")
    for line in {each["remedy"].split(" (")[0].removeprefix("sudo ") for each in told}:
        pair.nodes[1].run(*line.split())
    assert found_shut(pair, tmp_path) == []


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


def test_rules_that_let_all_in_are_tried_once_until_they_change(pair: Pair, tmp_path: Path) -> None:
    """What is kept is written after each try: one that has not been made leaves it as it is."""
    kept = pair.folder / "open"
    fire(pair, "-A INPUT -p tcp -j ACCEPT\n")
    assert found_shut(pair, tmp_path) == []
    first = (kept.read_text(), kept.stat().st_mtime_ns)
    assert found_shut(pair, tmp_path) == [] and (kept.read_text(), kept.stat().st_mtime_ns) == first
    fire(pair, "-A INPUT -p tcp -j ACCEPT\n-A INPUT -p udp -j ACCEPT\n")
    assert found_shut(pair, tmp_path) == [] and kept.read_text() != first[0]
    fire(pair)
    assert len(found_shut(pair, tmp_path)) == 5
    # What has shut something is tried each time.
    assert len(found_shut(pair, tmp_path)) == 5


@pytest.mark.parametrize(
    ("rule", "said"),
    [
        ("-A INPUT -s 10.99.0.77/32 -p tcp -m tcp --dport 8000 -j ACCEPT\n", 0),
        ("-A INPUT -s 10.99.0.77/32 -p tcp -m multiport --dports 443,8000 -j ACCEPT\n", 0),
        ("-A INPUT -s 10.99.0.77/32 -p tcp -m tcp --dport 18000 -j ACCEPT\n", 1),
        ("-A FORWARD -p tcp -m tcp --dport 8000 -j ACCEPT\n", 1),
    ],
    ids=["a rule for some", "among ports", "another port", "forwarded"],
)
def test_a_door_that_is_open_for_some_is_no_news(pair: Pair, tmp_path: Path, rule: str, said: int) -> None:
    fire(pair, rule)
    doors = [each for each in found_shut(pair, tmp_path) if each["is_door"]]
    assert [each["peer"] for each in doors] == ["10.99.0.1/24"] * said


def test_what_a_firewall_has_counted_is_no_change_of_its_rules() -> None:
    iptables = "# Generated on {}\n*filter\n:INPUT DROP [{}:{}]\n-A INPUT -p tcp -j {}\nCOMMIT\n"
    nft = "table inet filter {{\n  counter packets {} bytes {} accept\n}}\n"
    marks = [
        firewall._mark([], (iptables.format(day, day, day * 60, target), nft.format(day, day * 60)))
        for day, target in ((1, "ACCEPT"), (2, "ACCEPT"), (2, "DROP"))
    ]
    assert marks[0] == marks[1] != marks[2]
