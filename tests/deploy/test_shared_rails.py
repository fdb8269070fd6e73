"""A port that shows one netdev: the deploy goes on over one rail, says so, and takes the other one when it is there."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

from operations.paths import NETPLAN
from operations.plan.plan import Plan, make_plan
from operations.plan.wanted import wanted
from tests.deploy.fake import Outcome, deploy, flags, look, planned
from tests.plan.samples import knob_data

FIRST, SECOND = "enp1s0f0np0", "enP2p1s0f0np0"
CHANGES: dict[str, Any] = {"topology": "replicas"}
SAID = "spark-2: its port shows one netdev, enp1s0f0np0"


def over_one() -> Plan:
    """What is planned where the second half is missing on a node."""
    nodes = [replace(each.node, rails=(FIRST,), subnets=each.node.subnets[:1]) for each in planned(**CHANGES).nodes]
    return make_plan(wanted(knob_data(**CHANGES)), nodes)


def as_planned(second_on: int) -> list[dict[str, Any]]:
    """Nodes that serve over one rail; so many of them, the first ones, show the other half as well."""
    plan = over_one()
    states = [look(plan, each.node.name) for each in plan.nodes]
    for state in states[:second_on]:
        state["links"][SECOND] = state["links"][FIRST] | {"addresses": [], "mtu": 1500}
    return states


def run(tmp_path: Path, states: list[dict[str, Any]]) -> Outcome:
    return deploy(tmp_path, states, "-y", *flags(**CHANGES))


def test_over_one_rail_a_deploy_is_stable_and_says_what_is_missing(tmp_path: Path) -> None:
    outcome = run(tmp_path, as_planned(1))
    assert outcome.code == 0 and outcome.commands == [], outcome.text
    assert SAID in outcome.text and "half of its bandwidth is missing" in outcome.text


def test_when_the_other_half_is_there_the_next_deploy_takes_it(tmp_path: Path) -> None:
    outcome = run(tmp_path, as_planned(2))
    assert outcome.code == 0, outcome.text
    for node in (1, 2):
        outcome.position(node, f"{NETPLAN}.pending")
    assert f"{SECOND} has not the address 192.168.178.12/24" in outcome.text and SAID not in outcome.text


def test_a_half_that_goes_is_left_out_by_the_next_deploy(tmp_path: Path) -> None:
    plan = planned(**CHANGES)
    states = [look(plan, each.node.name) for each in plan.nodes]
    del states[1]["links"][SECOND]
    outcome = run(tmp_path, states)
    assert outcome.code == 0 and SAID in outcome.text, outcome.text
    # Its address would be the way to a node that has none there.
    outcome.position(1, f"ip address del 192.168.178.11/24 dev {SECOND}")


def test_without_netdevs_the_cable_is_named_before_anything_is_changed(tmp_path: Path) -> None:
    states = as_planned(2)
    states[1]["links"] = {}
    outcome = run(tmp_path, states)
    assert outcome.refused and outcome.commands == []
    assert "no interface of a ConnectX is here" in outcome.text and "plug the cable in at both ends" in outcome.text
