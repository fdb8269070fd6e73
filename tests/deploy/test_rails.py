"""Addresses, MTU and ARP of the rails: set where they differ from the plan, without moving them."""

from __future__ import annotations

from pathlib import Path

import pytest

from operations.paths import ARP, NETPLAN, NETWORK_MANAGER, SYSCTL
from tests.deploy.fake import as_planned, deploy, flags


def test_solo_leaves_the_network_as_it_is(tmp_path: Path) -> None:
    states = as_planned(topology="solo")
    states[0]["files"][NETPLAN] = {"sha256": "of a cluster", "mode": "600"}
    states[0]["links"] = {
        "enp1s0f0np0": {"carrier": False, "up": True, "mtu": 1500, "addresses": [], "rdma": None, "mac": ""}
    }
    states[0]["links"]["enP2p1s0f0np0"] = dict(states[0]["links"]["enp1s0f0np0"])
    outcome = deploy(tmp_path, states, "-y", *flags(topology="solo"))
    assert outcome.code == 0 and outcome.commands == [], outcome.text


@pytest.mark.parametrize("path", (NETPLAN, NETWORK_MANAGER))
def test_all_files_of_the_rails_are_applied_together(tmp_path: Path, path: str) -> None:
    states = as_planned(topology="replicas")
    del states[1]["files"][path]
    outcome = deploy(tmp_path, states, "-y", *flags(topology="replicas"))
    assert outcome.code == 0, outcome.text
    assert [node for node, _ in outcome.commands] == ["spark-2"] * 2
    for each in (NETPLAN, NETWORK_MANAGER):
        outcome.position(2, f"{each}.pending")


@pytest.mark.parametrize("lost", ["the file", "a setting"])
def test_arp_on_the_rails_is_set_without_netplan(tmp_path: Path, lost: str) -> None:
    """Nothing that serves is disturbed by it."""
    states = as_planned(topology="replicas")
    if lost == "the file":
        del states[1]["files"][SYSCTL]
    else:
        states[1]["links"]["enP2p1s0f0np0"]["arp"]["arp_ignore"] = "0"
    outcome = deploy(tmp_path, states, "-y", *flags(topology="replicas"))
    assert outcome.code == 0, outcome.text
    assert ("enP2p1s0f0np0 has arp_ignore 0, not 1" in outcome.text) == (lost == "a setting")
    (written, applied) = [command for node, command in outcome.commands if node == "spark-2"]
    assert SYSCTL in written and "systemd-sysctl" in applied and len(outcome.commands) == 2


def test_arp_is_set_on_the_ports_that_are_no_rails_as_well(tmp_path: Path) -> None:
    states = as_planned(topology="replicas")
    links = states[1]["links"]
    links["enp1s0f1np1"] = links["enp1s0f0np0"] | {"addresses": ["169.254.7.7/16"], "arp": dict.fromkeys(ARP, "0")}
    outcome = deploy(tmp_path, states, "-y", *flags(topology="replicas"))
    assert outcome.code == 0 and "enp1s0f1np1 has arp_ignore 0, not 1" in outcome.text, outcome.text
    assert [command for node, command in outcome.commands if "systemd-sysctl" in command]


def test_rails_do_not_move_to_another_port_when_their_cable_is_out(tmp_path: Path) -> None:
    states = as_planned(topology="replicas")
    for links in (state["links"] for state in states):
        for rail in list(links):
            links[rail.replace("f0np0", "f1np1")] = links[rail] | {"addresses": []}
            links[rail]["carrier"] = False
    outcome = deploy(tmp_path, states, "-y", *flags(topology="replicas"))
    assert outcome.refused and outcome.commands == []
    assert "the rail enp1s0f0np0 has no carrier" in outcome.text


@pytest.mark.parametrize(
    ("kept", "said"),
    [
        ({"kept": False}, "the network's old files are in force"),
        ({"kept": False, "waiting": True}, "the change of the network was not made on the node. Run the deploy again"),
    ],
)
def test_a_change_of_the_network_that_is_not_in_force_ends_the_deploy(
    tmp_path: Path, kept: dict[str, bool], said: str
) -> None:
    states = as_planned(topology="replicas")
    del states[1]["files"][NETPLAN]
    programs = {"network.rails:keep": {"problems": [], **kept}}
    outcome = deploy(tmp_path, states, "-y", *flags(topology="replicas"), programs=programs)
    assert outcome.refused
    assert said in outcome.text and "Traceback" not in outcome.text


def test_a_rail_that_lost_its_mtu_is_repaired(tmp_path: Path) -> None:
    states = as_planned(topology="cluster")
    states[1]["links"]["enp1s0f0np0"]["mtu"] = 1500
    outcome = deploy(tmp_path, states, "--dry")
    assert "enp1s0f0np0 has MTU 1500, not 9000" in outcome.text
