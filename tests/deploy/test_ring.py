"""Three nodes with a cable between each two: found before the first change, addressed once, and left alone then."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

from operations.paths import ARP, NETPLAN
from operations.plan.cluster.fabric import rails_of
from operations.plan.cluster.ring import neighbours, subnets_of
from operations.plan.plan import Plan, make_plan
from operations.plan.wanted import wanted
from tests.deploy.fake import FOUR, Outcome, declares, deploy, flags, fresh, look, planned
from tests.plan.samples import knob_data
from tests.plan.test_ring import BACKWARD, DEVICES, heard

NAMES = FOUR[:3]
#: In the lab's direction: port 1 to the next node's port 0.
RAILS = (*DEVICES[2:], *DEVICES[:2])
WANTED: dict[str, Any] = {"executor": "mp", "pipeline_parallel": 3}
KNOBS: dict[str, Any] = {**WANTED, "pipeline_parallel": "3"}
LINK: dict[str, Any] = {
    "carrier": True,
    "up": True,
    "mtu": 1500,
    "addresses": [],
    "routes": [],
    "rdma": None,
    "mac": "",
    "driver": "",
}
LINK["arp"] = dict(ARP)


def ring() -> Plan:
    declared = wanted(knob_data(**WANTED))
    nodes = [
        replace(
            each.node,
            rails=RAILS,
            subnets=subnets_of(each.node.index, declared.knobs.rail_subnets),
            ends=tuple(NAMES[other] for other in neighbours(each.node.index) for _ in range(2)),
        )
        for each in planned(names=NAMES).nodes
    ]
    return make_plan(declared, nodes)


def as_planned() -> list[dict[str, Any]]:
    plan = ring()
    states = [look(plan, name) for name in NAMES]
    for state, name in zip(states, NAMES, strict=True):
        state["links"] = {
            each.device: {**LINK, "mtu": 9000, "addresses": [each.address], "routes": [" via ".join(each.route or ())]}
            for each in rails_of(plan.knobs, plan.of(name).node)
        }
    return states


def run(tmp_path: Path, states: list[dict[str, Any]], cables: Any = BACKWARD, *arguments: str, **more: Any) -> Outcome:
    told = heard(*cables)
    by_node: dict[str, Any] = {
        name: {"doctor.cables": {"ports": list(DEVICES), "heard": told[name.removeprefix("@fake/")]}} for name in NAMES
    }
    for answer in by_node.values():
        for each in answer["doctor.cables"]["heard"]:
            each["node"] = f"@fake/{each['node']}"
    return deploy(tmp_path, states, "-y", *arguments, *flags(**KNOBS), by_node=by_node, **more)


def delivered() -> list[dict[str, Any]]:
    """Nodes that nobody has touched: their ports are down."""
    states = [fresh(ring(), name) for name in NAMES]
    for state in states:
        state["links"] = {device: {**LINK, "carrier": False, "up": False} for device in DEVICES}
    return states


def test_a_ring_is_found_and_each_node_gets_its_addresses(tmp_path: Path) -> None:
    outcome = run(tmp_path, delivered())
    assert outcome.code == 0, outcome.text
    assert "listening who is behind which" in outcome.text
    plan = ring()
    for number, node in enumerate(plan.nodes, 1):
        outcome.position(number, f"{NETPLAN}.pending")
        assert node.fabric[0].sha256 in {file.sha256 for file in plan.of(NAMES[number - 1]).fabric}
    written = [command for _, command in outcome.commands if f"{NETPLAN}.pending" in command]
    assert len(written) == 3


def test_a_port_whose_other_end_was_down_is_not_taken_for_one_without_a_cable(tmp_path: Path) -> None:
    states = delivered()
    for device in DEVICES[:2]:
        # One that was joined to another node by a cable before.
        states[0]["links"][device] |= {"up": True}
    outcome = run(tmp_path, states)
    assert outcome.code == 0, outcome.text


def test_what_is_addressed_is_not_asked_again_and_a_second_deploy_changes_nothing(tmp_path: Path) -> None:
    # Whatever would be heard now.
    outcome = run(tmp_path, as_planned(), (), "--json")
    assert outcome.code == 0, outcome.text
    totals = json.loads(outcome.json)["results"]["totals"]
    assert totals["no_change"] == totals["hosts"] and outcome.commands == []
    assert "listening" not in outcome.text


def test_a_route_that_is_lost_is_a_drift(tmp_path: Path) -> None:
    states = as_planned()
    states[1]["links"][RAILS[0]]["routes"] = []
    outcome = run(tmp_path, states)
    assert outcome.code == 0, outcome.text
    assert f"{RAILS[0]} has not the route to 192.168.177.141 via 192.168.177.77" in outcome.text
    assert {node for node, command in outcome.commands if NETPLAN in command} == {"spark-2"}


def test_a_cable_that_is_missing_is_one_line_before_the_first_change(tmp_path: Path) -> None:
    outcome = run(tmp_path, delivered(), BACKWARD[:2])
    assert outcome.refused and outcome.commands == [] and "Traceback" not in outcome.text
    line = " ".join(outcome.text.partition("put right first:")[2].split())
    assert "no cable joins @fake/spark-3 and @fake/spark-1" in line and line.count(" -> ") == 1


#: Nothing of the third one is needed.
ON_TWO = {
    "a": {
        "recipe": "lab-tiny-llama",
        "topology": "replicas",
        "nodes": list(NAMES[:2]),
        "memory_gib": 8,
        "pipeline_parallel": 1,
    }
}


def on_two() -> list[dict[str, Any]]:
    """As planned of a ring whose third node has no model, and no cable in it any more."""
    declared = wanted(knob_data(**WANTED, models=ON_TWO))
    plan = make_plan(declared, [each.node for each in ring().nodes])
    states = [look(plan, name) for name in NAMES]
    for state, name in zip(states, NAMES, strict=True):
        rails = rails_of(plan.knobs, plan.of(name).node)
        state["links"] = {device: dict(LINK) for device in DEVICES} | {
            each.device: {**LINK, "mtu": 9000, "addresses": [each.address], "routes": [" via ".join(each.route or ())]}
            for each in rails
        }
    return states


def test_a_ring_is_known_by_those_that_serve_and_the_others_cables_may_be_out(tmp_path: Path) -> None:
    states = on_two()
    assert states[0]["links"][RAILS[2]]["addresses"] and not states[2]["links"][RAILS[2]]["addresses"]
    # From the first to the next one is port 1, from the second to the one before port 0.
    for state, devices in zip(states, (DEVICES[:2], DEVICES[2:], DEVICES), strict=True):
        for device in devices:
            state["links"][device]["carrier"] = False
    outcome = run(tmp_path, states, (), inventory=declares(ON_TWO), failing={NAMES[2]: ["network.proof:prove"]})
    assert outcome.code == 0 and outcome.commands == [], outcome.text
    assert "listening" not in outcome.text


def test_a_ring_is_found_with_a_node_in_it_that_serves_nothing(tmp_path: Path) -> None:
    states = on_two()
    for state in states:
        state["files"] = {path: each for path, each in state["files"].items() if path != NETPLAN}
        state["links"] = {device: dict(LINK) for device in DEVICES}
    outcome = run(tmp_path, states, inventory=declares(ON_TWO))
    assert outcome.code == 0, outcome.text
    assert {node for node, command in outcome.commands if NETPLAN in command} == {"spark-1", "spark-2"}


def test_what_a_ring_has_left_on_a_port_goes_with_the_ring(tmp_path: Path) -> None:
    """On two nodes again, joined by port 0: the addresses on port 1 would be the way to each other."""
    plan = planned(names=NAMES[:2])
    states = [look(plan, name) for name in NAMES[:2]]
    left = as_planned()
    for state, ringed in zip(states, left, strict=False):
        for device in DEVICES[2:]:
            state["links"][device] = {**ringed["links"][device], "carrier": False}
    outcome = deploy(tmp_path, states, "-y")
    assert outcome.code == 0, outcome.text
    for node, number in ((1, 11), (2, 76)):
        outcome.position(node, f"ip address del 192.168.177.{number}/26 dev {DEVICES[2]}")
        outcome.position(node, f"ip address del 192.168.178.{number}/26 dev {DEVICES[3]}")


def test_netdevs_that_went_with_a_cable_are_no_other_wiring(tmp_path: Path) -> None:
    """Nothing is addressed anew, and nobody listens."""
    states = as_planned()
    for state, port in ((states[0], RAILS[:2]), (states[1], RAILS[2:])):
        for device in port:
            del state["links"][device]
    outcome = run(tmp_path, states, ())
    assert outcome.refused and outcome.commands == []
    told = "is one of a ring, and a port of it has no interfaces"
    assert outcome.text.count(told) == 2 and "listening" not in outcome.text


def test_a_ring_with_half_of_a_port_is_one_line(tmp_path: Path) -> None:
    states, lost, cables = delivered(), DEVICES[1], heard(*BACKWARD)
    del states[1]["links"][lost]
    by_node: dict[str, Any] = {}
    for name in NAMES:
        told = cables[name.removeprefix("@fake/")]
        told = [each for each in told if name != NAMES[1] or each["device"] != lost]
        frames = [{**each, "node": f"@fake/{each['node']}"} for each in told]
        by_node[name] = {"doctor.cables": {"ports": list(DEVICES), "heard": frames}}
    outcome = deploy(tmp_path, states, "-y", *flags(**KNOBS), by_node=by_node)
    assert outcome.refused and outcome.commands == []
    assert "a port of a ring has two interfaces, here are 3 at both ports" in outcome.text
