"""The owner's firewall on a node with rails, by the kernel's own verdict: what it shuts, and what is said of it."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from operations.node.network import owner_firewall
from operations.plan.cluster.fabric import inlets
from tests.node.twins import FINE, PORTS, RAILS, Pair
from tests.plan.samples import knobs

pytestmark = [
    pytest.mark.skipif(os.geteuid() != 0, reason="makes network namespaces"),
    pytest.mark.skipif(not shutil.which("ping"), reason="needs ping (apt install iputils-ping)"),
]

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


@pytest.fixture
def pair(tmp_path: Path) -> Iterator[Pair]:
    found = Pair(tmp_path)
    yield found
    found.close()


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


def test_rules_of_nftables_are_copied_as_well_and_tandem_s_own_are_not(pair: Pair, tmp_path: Path) -> None:
    argv = pair.nodes[1].argv("nft", "--file", "-")
    firewall = "table inet tandem {\n chain input {\n type filter hook input priority 0; policy drop;\n }\n}\n"
    subprocess.run(argv, input=firewall, text=True, check=True)
    assert found_shut(pair, tmp_path) == []
    subprocess.run(argv, input=NFT_RULES, text=True, check=True)
    told = json.loads(pair.start(1, "shut", wanted=inlets_of(pair)).communicate()[0])
    assert len(told) == 5
    assert told[0]["by"] == "nftables' table inet filter"
    assert told[0]["remedy"].startswith(f"sudo nft insert rule inet filter input iifname {told[0]['device']} accept")
    for line in {each["remedy"].split(" (")[0].removeprefix("sudo ") for each in told}:
        pair.nodes[1].run(*line.split())
    assert found_shut(pair, tmp_path) == []


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
        owner_firewall._mark([], (iptables.format(day, day, day * 60, target), nft.format(day, day * 60)))
        for day, target in ((1, "ACCEPT"), (2, "ACCEPT"), (2, "DROP"))
    ]
    assert marks[0] == marks[1] != marks[2]


@pytest.mark.parametrize(
    ("rule", "some"),
    [
        ("tcp dport 8000 ip saddr 10.99.0.77 accept", True),
        ("ip saddr 10.99.0.77 tcp dport { 22, 8000 } accept", True),
        ("tcp dport 8000 drop", False),
        ("tcp dport 80 accept", False),
    ],
)
def test_a_rule_of_nftables_may_let_some_in_as_well(rule: str, some: bool) -> None:
    assert owner_firewall._lets_some_in(("", f"table inet filter {{\n {rule}\n}}\n"), 8000) == some
