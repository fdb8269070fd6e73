"""Deploys of two pairs: each is a cluster, and what one of them goes through is nothing to the other."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from tests.deploy.fake import FOUR, OFF, Outcome, declares, deploy, fresh, look, planned
from tests.deploy.test_deploy import START, STOP, flags

PAIRS: dict[str, Any] = {"topology": "replicas", "nodes_per_replica": "2"}
WANTED: dict[str, Any] = {**PAIRS, "nodes_per_replica": 2}


def as_planned(**changes: Any) -> list[dict[str, Any]]:
    plan = planned(names=FOUR, **{**WANTED, **changes})
    return [look(plan, name) for name in FOUR]


def run(tmp_path: Path, states: list[dict[str, Any]], *arguments: str, **more: Any) -> Outcome:
    return deploy(tmp_path, states, "-y", *arguments, *flags(**PAIRS), **more)


def on_engines(outcome: Outcome) -> list[tuple[str, str]]:
    """Commands about engines' units and files, by node."""
    return [each for each in outcome.commands if "tandem-engine" in each[1] or "/etc/tandem/engine/" in each[1]]


def test_a_second_deploy_changes_nothing(tmp_path: Path) -> None:
    outcome = run(tmp_path, as_planned(), "--json")
    assert outcome.code == 0, outcome.text
    totals = json.loads(outcome.json)["results"]["totals"]
    assert totals["no_change"] > 30 and totals["no_change"] == totals["hosts"]
    assert outcome.commands == []


def test_on_fresh_nodes_all_ranks_start_before_the_proxies(tmp_path: Path) -> None:
    plan = planned(names=FOUR, **WANTED)
    outcome = run(tmp_path, [fresh(plan, name) for name in FOUR])
    assert outcome.code == 0, outcome.text
    proxy = "systemctl start --no-block tandem-proxy.service"
    starts, proxies = ([outcome.position(node, unit) for node in (1, 2, 3, 4)] for unit in (START, proxy))
    assert max(starts) < min(proxies)


def test_pairs_are_renewed_one_after_the_other(tmp_path: Path) -> None:
    states = as_planned()
    for state in states:
        state["services"]["units"]["tandem-engine"]["spec"] = "older"
    outcome = run(tmp_path, states)
    assert outcome.code == 0, outcome.text
    stops, starts = ([outcome.position(node, word) for node in (1, 2, 3, 4)] for word in (STOP, START))
    assert max(starts[:2]) < min(stops[2:])
    assert all(stop < start for stop, start in zip(stops, starts, strict=True))
    assert sum(command == STOP for _, command in outcome.commands) == 4


def test_a_pair_that_does_not_come_up_keeps_the_other_from_being_stopped(tmp_path: Path) -> None:
    states = as_planned()
    for state in states:
        state["services"]["units"]["tandem-engine"]["spec"] = "older"
    late = {"ok": False, "listens": True, "seconds": 1.0, "problem": "timed out", "log": [], "told": ""}
    gone = {"engine.probe": {**late, "state": {"ActiveState": "failed", "NRestarts": "7"}}}
    outcome = run(tmp_path, states, by_node={FOUR[0]: gone})
    assert outcome.refused and "does not serve" in outcome.text
    assert {node for node, command in outcome.commands if command == STOP} == {"spark-1", "spark-2"}


def test_a_rank_of_another_plan_has_its_own_pair_renewed_and_not_the_other(tmp_path: Path) -> None:
    states = as_planned()
    states[3]["services"]["units"]["tandem-engine"]["spec"] = "older"
    outcome = run(tmp_path, states)
    assert outcome.code == 0, outcome.text
    assert {node for node, _ in on_engines(outcome)} == {"spark-3", "spark-4"}
    for node in (3, 4):
        assert outcome.position(node, STOP) < outcome.position(node, START)


def test_a_pair_that_is_down_is_started_and_the_other_left_alone(tmp_path: Path) -> None:
    states = as_planned()
    for state in states[:2]:
        state["services"]["units"]["tandem-engine"] = {"ActiveState": "failed", "UnitFileState": "enabled"}
    outcome = run(tmp_path, states)
    assert outcome.code == 0, outcome.text
    assert {node for node, command in outcome.commands if command.endswith(START)} == {"spark-1", "spark-2"}
    assert {node for node, _ in on_engines(outcome)} == {"spark-1", "spark-2"}


def test_the_last_pair_that_serves_is_not_stopped(tmp_path: Path) -> None:
    states = as_planned()
    states[1]["services"]["units"]["tandem-engine"]["spec"] = "older"
    late = {"ok": False, "listens": False, "seconds": 1.0, "problem": "connection refused", "log": [], "told": ""}
    gone = {"engine.probe": {**late, "state": {"ActiveState": "failed", "NRestarts": "7"}}}
    outcome = run(tmp_path, states, by_node={FOUR[2]: gone})
    assert (
        outcome.refused and "the engine of @fake/spark-1 is not stopped, it may be the last that serves" in outcome.text
    )
    assert not [command for _, command in outcome.commands if command in (STOP, START)]


def test_a_node_that_is_off_stops_the_deploy_and_nothing_else(tmp_path: Path) -> None:
    outcome = run(tmp_path, [*as_planned()[:3], OFF])
    assert outcome.refused and outcome.commands == []
    assert "or take it out of the inventory" in outcome.text


def test_a_cluster_of_four_gives_way_to_two_pairs(tmp_path: Path) -> None:
    outcome = run(tmp_path, as_planned(topology="cluster", nodes_per_replica=1))
    assert outcome.code == 0, outcome.text
    stops = [outcome.position(node, STOP) for node in (1, 2, 3, 4)]
    starts = [outcome.position(node, START) for node in (1, 2, 3, 4)]
    # All ranks of the old one, before any of the new ones.
    assert max(stops) < min(starts)


def test_engines_of_one_node_each_do_not_go_one_by_one_when_they_become_pairs(tmp_path: Path) -> None:
    outcome = run(tmp_path, as_planned(nodes_per_replica=1))
    assert outcome.code == 0, outcome.text
    assert max(outcome.position(node, STOP) for node in (1, 2, 3, 4)) < outcome.position(2, START)


def test_a_model_of_several_may_be_pairs_beside_another(tmp_path: Path) -> None:
    models = {
        "big": {"recipe": "lab-tiny-llama", **WANTED, "nodes": list(FOUR), "memory_gib": 40},
        "small": {"recipe": "lab-tiny-llama", "topology": "solo", "nodes": [FOUR[0]], "served_name": "small"},
    }
    models["small"]["memory_gib"] = 8
    plan = planned(names=FOUR, models=models)
    states = [look(plan, name) for name in FOUR]
    again = deploy(tmp_path, states, "-y", inventory=declares(models))
    assert again.code == 0 and again.commands == [], again.text
    states[2]["services"]["units"]["tandem-engine-big"]["spec"] = "older"
    outcome = deploy(tmp_path, states, "-y", inventory=declares(models))
    assert outcome.code == 0, outcome.text
    assert {node for node, command in outcome.commands if "tandem-engine-big" in command} == {"spark-3", "spark-4"}
    assert not [command for _, command in outcome.commands if "tandem-engine-small" in command]


def test_groups_that_can_t_be_are_one_line(tmp_path: Path) -> None:
    outcome = deploy(tmp_path, as_planned()[:3], "-y", *flags(**PAIRS))
    assert outcome.refused and outcome.commands == [] and "Traceback" not in outcome.text
    line = " ".join(outcome.text.partition("put right first:")[2].split())
    assert "nodes_per_replica=2 wants 4 nodes or more, two groups at least; the inventory has 3" in line
    assert line.count(" -> ") == 1
