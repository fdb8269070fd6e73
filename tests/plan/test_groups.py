"""Replicas that are clusters of several nodes: what each group has of its own, and what can't be."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import pytest

from operations.paths import CANARY, ENGINE, FALLBACK, FIREWALL, LITELLM
from operations.plan.advisories import reach
from operations.plan.advisories.parts import every_part
from operations.plan.config.refusal import Refusal
from operations.plan.declared import Declared
from operations.plan.engines import ENGINES
from operations.plan.plan import NodePlan, Plan, check_one
from operations.plan.plan import make_plan as plan_of
from operations.plan.recipes.formats import load_recipe
from operations.plan.services.litellm_service import config_of
from operations.plan.services.service import Program
from operations.plan.wanted import wanted
from tests.plan.samples import engine_of, knob_data, knobs, nodes, plan
from tests.plan.test_ranks import sizes

PAIRS: dict[str, Any] = {"topology": "replicas", "nodes_per_replica": 2}
RECIPE = load_recipe(knobs().recipe)


def file_of(program: Program | None, name: str) -> str:
    assert program
    return next(file.content for file in program.files if file.path.endswith(name))


def meeting(node: NodePlan) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(file_of(engine_of(node), "meeting.json"))
    return found


def test_each_group_has_its_own_first_rank_and_meeting() -> None:
    of = plan(4, **PAIRS)
    met = [(each["address"], each["rank"], each["ranks"]) for each in map(meeting, of.nodes)]
    first, second = "192.168.177.11", "192.168.177.13"
    assert met == [(first, 0, 2), (first, 1, 2), (second, 0, 2), (second, 1, 2)]
    said = {"tensor-parallel-size": "2", "nnodes": "2"}
    assert [sizes(node) for node in of.nodes] == [said | {"node-rank": rank} for rank in ("0", "1", "0", "1")]


def test_a_group_has_one_spec_and_another_group_another() -> None:
    one, two, three, four = (engine_of(node).spec for node in plan(4, **PAIRS).nodes)
    assert one == two and three == four and one != three


def test_what_is_changed_of_one_group_s_node_restarts_that_group_alone() -> None:
    wanted = knobs(**PAIRS)
    before = nodes(4, wanted)
    after = [*before[:3], replace(before[3], home="/home/elsewhere")]
    declared = plan(4, **PAIRS).declared
    specs = [[engine_of(each).spec for each in plan_of(declared, on).nodes] for on in (before, after)]
    assert specs[0][:2] == specs[1][:2]
    assert specs[0][2] != specs[1][2] == specs[1][3]


def test_the_proxies_know_an_engine_for_each_group_under_one_name() -> None:
    of = plan(4, **PAIRS)
    for node in of.nodes:
        config = file_of(node.services[LITELLM[0]], config_of(LITELLM[0]))
        assert config.count("model_name: nemotron") == 2
        assert "http://192.168.177.11:8001/v1" in config and "http://192.168.177.13:8001/v1" in config
    assert of.models[0].endpoints == {"spark-1": "http://192.168.177.11:8001", "spark-3": "http://192.168.177.13:8001"}


def test_a_renewal_goes_group_by_group() -> None:
    assert [name for _, name in plan(4, **PAIRS).turns] == ["spark-1", "spark-3"]
    assert [name for _, name in plan(6, topology="replicas", nodes_per_replica=3).turns] == ["spark-1", "spark-4"]


def test_the_canary_of_a_group_s_first_node_acts_and_looks_at_its_own_ranks() -> None:
    found = [
        json.loads(file_of(node.services[CANARY], "canary.json"))["engines"][ENGINE] for node in plan(4, **PAIRS).nodes
    ]
    assert [each["acts"] for each in found] == [True, False, True, False]
    assert [list(each["peers"]) for each in found] == [["spark-2"], ["spark-1"], ["spark-4"], ["spark-3"]]
    assert found[3]["meeting"]["ranks"] == ["spark-3", "spark-4"]


def test_the_firewall_know_the_ports_of_a_group_s_first_rank_where_it_is() -> None:
    rules = [file_of(node.services[FIREWALL], "tandem.nft") for node in plan(4, **PAIRS).nodes]
    assert ["26000-26001" in each for each in rules] == [True, False, True, False]


def test_stages_are_those_of_a_group() -> None:
    of = plan(8, topology="replicas", nodes_per_replica=4, pipeline_parallel=2)
    ranks = [sizes(node) for node in of.nodes]
    assert {(each["tensor-parallel-size"], each["pipeline-parallel-size"]) for each in ranks} == {("2", "2")}
    assert [each["node-rank"] for each in ranks] == ["0", "1", "2", "3"] * 2


def test_with_ray_each_group_has_a_head() -> None:
    of = plan(4, **PAIRS, executor="ray", recipe="nemotron-3-super-nvfp4-marlin")
    starts = [file_of(engine_of(node), "engine/start.sh") for node in of.nodes]
    assert ["ray start --head" in each for each in starts] == [True, False, True, False]
    assert "--address=192.168.177.13:26002" in starts[3]
    assert all("ray_nodes.py 2" in starts[first] for first in (0, 2))


def test_one_of_several_models_may_be_pairs() -> None:
    names = [f"spark-{number}" for number in range(1, 6)]
    models = {
        "big": {"recipe": "lab-tiny-llama", **PAIRS, "nodes": names[1:]},
        "small": {"recipe": "lab-tiny-llama", "topology": "solo", "nodes": names[:1], "served_name": "small"},
    }
    of = make(wanted(knob_data(models=models)), 5)
    assert list(of.models[0].endpoints) == ["spark-2", "spark-4"]
    found = [json.loads(file_of(of.of(name).container(f"{ENGINE}-big"), "meeting.json")) for name in names[1:]]
    assert [each["rank"] for each in found] == [0, 1, 0, 1]
    assert [each["address"] for each in found] == [*["192.168.177.12"] * 2, *["192.168.177.14"] * 2]


def make(declared: Declared, count: int) -> Plan:
    return plan_of(declared, nodes(count, declared.knobs))


def test_one_node_in_each_group_is_what_replicas_always_were() -> None:
    assert plan(4, topology="replicas", nodes_per_replica=1).nodes == plan(4, topology="replicas").nodes


def test_an_owner_s_fallback_is_for_clusters_that_have_all_nodes() -> None:
    of = plan(4, **PAIRS, fallback="solo")
    assert all(FALLBACK not in node.services for node in of.nodes)


def test_holes_of_ranks_are_those_of_groups_too() -> None:
    pairs = knobs(**PAIRS, executor="ray")
    assert any(part.package == "ray" for part in every_part(RECIPE, pairs, {}, {}))
    assert not any(part.package == "ray" for part in every_part(RECIPE, knobs(topology="replicas"), {}, {}))
    holds = reach.CONDITIONS["topology"]
    assert not holds(["cluster"], reach.Situation(RECIPE, pairs))
    assert holds(["cluster"], reach.Situation(RECIPE, knobs(topology="replicas")))


@pytest.mark.parametrize(
    ("count", "changes", "problem", "remedy"),
    [
        (
            *(4, {"nodes_per_replica": 3}),
            "nodes_per_replica=3 wants 6 nodes or more, two groups at least; the inventory has 4",
            "add nodes to the inventory, or set nodes_per_replica to 1 and topology to cluster",
        ),
        (
            *(2, {"nodes_per_replica": 2}),
            "nodes_per_replica=2 wants 4 nodes or more, two groups at least; the inventory has 2",
            "add nodes to the inventory, or set nodes_per_replica to 1 and topology to cluster",
        ),
        (
            *(6, {"nodes_per_replica": 2, "pipeline_parallel": 4}),
            "pipeline_parallel=4 does not divide the 2 nodes of a group (nodes_per_replica)",
            "set it to 1 or 2",
        ),
        (
            *(9, {"nodes_per_replica": 4}),
            "nodes_per_replica=4 does not divide 9 nodes (the inventory has so many): all groups have the same number",
            "set it to 1 or 3, or change the number of nodes",
        ),
        (
            *(5, {"nodes_per_replica": 2}),
            "nodes_per_replica=2 does not divide 5 nodes (the inventory has so many): all groups have the same number",
            "set it to 1, or change the number of nodes",
        ),
        *(
            (
                *(4, {"nodes_per_replica": 2, "topology": topology}),
                f"nodes_per_replica=2 with topology={topology}: only replicas lie on groups of nodes",
                "set nodes_per_replica to 1, or topology to replicas",
            )
            for topology in ("solo", "cluster")
        ),
        (
            *(4, {"nodes_per_replica": 2, "recipe": "nemotron-3-super-nvfp4-trtllm"}),
            "nodes_per_replica=2: each group is a cluster, and the recipe nemotron-3-super-nvfp4-trtllm runs in: ",
            "set nodes_per_replica to 1, or choose another recipe",
        ),
    ],
)
def test_groups_that_can_t_be_are_refused(count: int, changes: dict[str, Any], problem: str, remedy: str) -> None:
    with pytest.raises(Refusal) as refused:
        plan(count, **{"topology": "replicas", **changes})
    (finding,) = refused.value.findings
    assert finding.problem.startswith(problem) and finding.remedy == remedy


def test_a_recipe_for_more_nodes_than_a_group_has_is_refused() -> None:
    with pytest.raises(Refusal, match="wants 3 nodes or more for one engine") as refused:
        check_one(RECIPE.model_copy(update={"min_nodes": 3}), knobs(**PAIRS), 4)
    assert refused.value.findings[0].remedy == "set it to 3 or more, or choose another recipe"


def test_stages_of_an_engine_that_has_none_are_refused_in_groups_too(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ENGINES["vllm"], "PIPELINES", False)
    with pytest.raises(Refusal, match="pipeline_parallel=2: vllm has no stages here"):
        check_one(RECIPE, knobs(**PAIRS, pipeline_parallel=2), 4)


def test_a_model_of_several_is_told_about_its_own_nodes() -> None:
    names = ["spark-1", "spark-2", "spark-3"]
    models = {"big": {"recipe": "lab-tiny-llama", **PAIRS, "nodes": names}}
    with pytest.raises(Refusal, match=r"models\.big has 3") as refused:
        make(wanted(knob_data(models=models)), 3)
    assert (
        refused.value.findings[0].remedy
        == "add nodes to models.big.nodes, or set nodes_per_replica to 1 and topology to cluster"
    )
