"""What nodes say, read as what is deployed: what is not whole is not measured."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from bench.deployed import counted, deployed
from bench.running import _not_there
from bench.session import Node
from bench.words import why
from operations.plan.config.refusal import Refusal
from operations.wire.bench import Declared
from operations.wire.unit import UnitState

SERVED: dict[str, Any] = {
    "id": "p1",
    "knobs": {"topology": "replicas", "executor": "mp", "routing": "balanced"},
    "recipe": {"name": "r", "engine": "vllm", "engine_version": "0.33.0", "model": {"repo": "o/m", "revision": None}},
    "services": {name: {"tandem-engine": {"spec": f"spec-{name}"}} for name in ("a", "b")},
}


def nodes() -> dict[str, Node]:
    """Two replicas, the first is the head."""

    def node(name: str, **more: Any) -> Node:
        engine: UnitState = {"ActiveState": "active", "url": f"http://{name}:8001", "spec": f"spec-{name}"}
        return Node({}, None, units={"tandem-engine": engine, "tandem-proxy": {"image_name": "p"}}, **more)

    endpoint = {"url": "http://a:8000/v1", "key": "k", "model": "m"}
    head = node("a", endpoint=endpoint, served=SERVED, versions={"driver": "580", "gpu": "GB10"})
    return {"a": head, "b": node("b", endpoint={"url": ""}, versions={"driver": "570", "gpu": "GB10"})}


def test_a_deployment_is_read() -> None:
    found = deployed(nodes(), "a", 61.04)
    assert found.engines == {"a": "http://a:8001", "b": "http://b:8001"} and found.proxy == "http://a:8000"
    assert (found.setup.name, found.setup.routing, found.setup.nodes, found.setup.plan) == (
        "replicas",
        "balanced",
        2,
        "p1",
    )
    assert found.setup.deploy_s == 61.0 and found.setup.versions["engine"] == "vllm 0.33.0"
    # Where nodes differ each is told.
    assert found.setup.versions["driver of b"] == "570" and found.setup.versions["gpu"] == "GB10"
    assert "'k'" not in repr(found)


@pytest.mark.parametrize(
    ("knobs", "name", "stages"),
    [
        ({}, "cluster/mp", 1),
        ({"pipeline_parallel": 1}, "cluster/mp", 1),
        ({"pipeline_parallel": 2}, "cluster/mp/pp2", 2),
    ],
)
def test_a_cluster_in_stages_is_a_setup_of_its_own(knobs: dict[str, int], name: str, stages: int) -> None:
    said = nodes()
    served = {**SERVED, "knobs": {**SERVED["knobs"], "topology": "cluster", **knobs}}
    found = deployed(said | {"a": replace(said["a"], served=served)}, "a").setup
    assert (found.name, found.executor, found.stages) == (name, "mp", stages)


@pytest.mark.parametrize(
    ("name", "executor", "stages"),
    [("cluster/ray/pp2", "ray", 2), ("cluster/mp/pp2", "mp", 2), ("replicas", "mp", 1), ("solo", "mp", 1)],
)
def test_a_setup_that_did_not_come_up_is_told_as_it_was_meant(name: str, executor: str, stages: int) -> None:
    declared = Declared(
        recipe="r",
        served_name="m",
        model="o/m",
        revision="",
        engine="vllm",
        topologies=["solo"],
        topology="cluster",
        executor="mp",
        pipeline_parallel=2,
        routing="balanced",
        model_store="/s",
    )
    found = _not_there(name, declared, "no room", 1.0)
    assert (found.topology, found.executor, found.stages) == (name.partition("/")[0], executor, stages)


def test_engines_of_several_nodes_side_by_side_are_no_setup_that_figures_know() -> None:
    said = nodes()
    knobs = {**SERVED["knobs"], "topology": "replicas", "nodes_per_replica": 2}
    with pytest.raises(Refusal, match="each engine lies on several nodes") as refused:
        deployed(said | {"a": replace(said["a"], served={**SERVED, "knobs": knobs})}, "a")
    assert refused.value.findings[0].remedy == '`--topologies "cluster replicas"` measures those'


def test_what_is_not_whole_is_refused() -> None:
    some = nodes()
    for change, told in (
        ({"a": replace(some["a"], endpoint={"url": ""})}, "no proxy runs on the head"),
        ({"a": replace(some["a"], served={})}, "no plan has served yet"),
        (
            {"b": replace(some["b"], units={"tandem-engine": {"spec": "other"}})},
            "not the one of the plan that served last",
        ),
    ):
        with pytest.raises(Refusal, match=told):
            deployed({**some, **change}, "a")
    with pytest.raises(Refusal, match="does not answer"):
        deployed({"a": some["a"]}, "a")
    with pytest.raises(Refusal, match="the head does not answer"):
        deployed({"b": some["b"]}, "a")
    stopped = {name: replace(node, units={"tandem-engine": {}, "tandem-proxy": {}}) for name, node in some.items()}
    with pytest.raises(Refusal, match="no engine runs"):
        deployed(stopped, "a")


def test_an_engine_that_was_started_anew_has_counted_nothing() -> None:
    def node(requests: int) -> Node:
        return Node({}, {"requests": requests, "prompt_tokens": 5, "answer_tokens": 5})

    found = counted(node(3), node(7))
    assert found is not None and (found.requests, found.prompt_tokens, found.prefix_asked) == (4, 0, None)
    assert counted(node(7), node(3)) is None and counted(Node({}, None), node(3)) is None


def test_the_words_of_pyinfra_come_down_to_a_line() -> None:
    failed = (
        "    [spark-1] noop: x\n    [spark-1] http://a:8001 does not serve: its unit is failed. From its log:\n"
        "    ValueError: no room\n    [spark-1] Error: executed 0 commands\n"
        "--> pyinfra error: Over 0% of hosts failed (50%)\n"
    )
    assert why(failed) == "http://a:8001 does not serve: its unit is failed. From its log: ValueError: no room"
    refused = (
        "--> pyinfra error in /x/report.py line 32: \n    knob  no knob is named `x`\n          -> did you mean `y`?\n"
    )
    assert why(refused) == "knob no knob is named `x` -> did you mean `y`?"
    early = (
        "--> Connecting to hosts...\n    nothing was changed; this has to be put right first:\n"
        "    knob  no knob is named `x`\n          -> did you mean `y`?\n\n--> Disconnecting from hosts...\n"
    )
    assert why(early) == "knob no knob is named `x` -> did you mean `y`?"
    away = "    spark-1 does not answer (connection refused): x\n\n--> pyinfra error: no node answers\n"
    assert why(away) == "spark-1 does not answer (connection refused): x no node answers"
    assert why("") == "it ended without a word" and why("\x1b[31mlast words\x1b[0m") == "last words"
