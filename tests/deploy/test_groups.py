"""Deploys of two pairs: each is a cluster, and what one of them goes through is nothing to the other."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from tests.deploy import fake
from tests.deploy.decided import Decided, decided, start, stop
from tests.deploy.fake import FOUR, OFF, START, STOP, Outcome, deploy, flags, fresh, look, planned

PAIRS: dict[str, Any] = {"topology": "replicas", "nodes_per_replica": "2"}
WANTED: dict[str, Any] = {**PAIRS, "nodes_per_replica": 2}


def as_planned(**changes: Any) -> list[dict[str, Any]]:
    return fake.as_planned(names=FOUR, **{**WANTED, **changes})


def run(tmp_path: Path, states: list[dict[str, Any]], *arguments: str, **more: Any) -> Outcome:
    return deploy(tmp_path, states, "-y", *arguments, *flags(**PAIRS), **more)


def pairs(states: list[dict[str, Any]], **more: Any) -> Decided:
    """What two pairs would come to."""
    return decided(planned(names=FOUR, **WANTED), states, **more)


def older(*nodes: int) -> list[dict[str, Any]]:
    """Two pairs of which these ranks are of another plan."""
    states = as_planned()
    for node in nodes:
        states[node]["services"]["units"]["tandem-engine"]["spec"] = "older"
    return states


def on_engines(outcome: Decided) -> list[tuple[str, str]]:
    """Actions about engines' units and files, by node."""
    return [each for each in outcome.commands if "tandem-engine'" in each[1] or "/etc/tandem/engine/" in each[1]]


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


def test_pairs_are_renewed_one_after_the_other() -> None:
    outcome = pairs(older(0, 1, 2, 3))
    assert not outcome.refused
    stops, starts = ([outcome.position(node, word) for node in (1, 2, 3, 4)] for word in (stop(), start()))
    assert max(starts[:2]) < min(stops[2:])
    assert all(stop < start for stop, start in zip(stops, starts, strict=True))
    assert sum(command == stop() for _, command in outcome.commands) == 4


def test_a_pair_that_does_not_come_up_keeps_the_other_from_being_stopped() -> None:
    outcome = pairs(older(0, 1, 2, 3), down=FOUR[:1])
    # It serves nobody, so it has no turn.
    assert outcome.refused
    assert {node for node, command in outcome.commands if command == stop()} == {"spark-1", "spark-2"}


def test_a_rank_of_another_plan_has_its_own_pair_renewed_and_not_the_other() -> None:
    outcome = pairs(older(3))
    assert not outcome.refused
    assert {node for node, _ in on_engines(outcome)} == {"spark-3", "spark-4"}
    for node in (3, 4):
        assert outcome.position(node, stop()) < outcome.position(node, start())


def test_a_pair_that_is_down_is_started_and_the_other_left_alone() -> None:
    states = as_planned()
    for state in states[:2]:
        state["services"]["units"]["tandem-engine"] = {"ActiveState": "failed", "UnitFileState": "enabled"}
    outcome = pairs(states)
    assert not outcome.refused
    assert {node for node, command in outcome.commands if command == start()} == {"spark-1", "spark-2"}
    assert {node for node, _ in on_engines(outcome)} == {"spark-1", "spark-2"}


def test_the_last_pair_that_serves_is_not_stopped() -> None:
    outcome = pairs(older(1), down=FOUR[2:3])
    assert outcome.refused
    assert not [command for _, command in outcome.commands if command in (stop(), start())]


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


def test_engines_of_one_node_each_do_not_go_one_by_one_when_they_become_pairs() -> None:
    outcome = pairs(as_planned(nodes_per_replica=1))
    assert max(outcome.position(node, stop()) for node in (1, 2, 3, 4)) < outcome.position(2, start())


def test_a_model_of_several_may_be_pairs_beside_another() -> None:
    models = {
        "big": {"recipe": "lab-tiny-llama", **WANTED, "nodes": list(FOUR), "memory_gib": 40},
        "small": {"recipe": "lab-tiny-llama", "topology": "solo", "nodes": [FOUR[0]], "served_name": "small"},
    }
    models["small"]["memory_gib"] = 8
    plan = planned(names=FOUR, models=models)
    states = [look(plan, name) for name in FOUR]
    assert decided(plan, states).commands == []
    states[2]["services"]["units"]["tandem-engine-big"]["spec"] = "older"
    outcome = decided(plan, states)
    assert not outcome.refused
    assert {node for node, said in outcome.commands if "tandem-engine-big" in said} == {"spark-3", "spark-4"}
    assert not [said for _, said in outcome.commands if "tandem-engine-small" in said]


def test_groups_that_can_t_be_are_one_line(tmp_path: Path) -> None:
    outcome = deploy(tmp_path, as_planned()[:3], "-y", *flags(**PAIRS))
    assert outcome.refused and outcome.commands == [] and "Traceback" not in outcome.text
    line = " ".join(outcome.text.partition("put right first:")[2].split())
    assert "nodes_per_replica=2 wants 4 nodes or more, two groups at least; the inventory has 3" in line
    assert line.count(" -> ") == 1
