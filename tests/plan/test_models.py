"""Several models in one plan: what each is called, where it lies and listens, and what can't be."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

import pytest
import yaml

from operations.plan.declared import Declared, chosen, one_of
from operations.plan.plan import NodePlan, Plan, make_plan
from operations.plan.recipe import Recipe
from operations.plan.refusal import Refusal
from operations.plan.wanted import wanted
from tests.plan.samples import knob_data, knobs, nodes

TINY = "lab-tiny-llama"
#: A cluster of two, replicas on the other two, and a small one beside the first rank.
SET: dict[str, dict[str, Any]] = {
    "chat": {"recipe": TINY, "topology": "cluster", "nodes": ["spark-1", "spark-2"], "memory_gib": 60},
    "coder": {"recipe": TINY, "topology": "replicas", "nodes": ["spark-3", "spark-4"], "served_name": "coder"},
    "embed": {"recipe": TINY, "topology": "solo", "nodes": ["spark-1"], "served_name": "embed", "memory_gib": 8},
}
MIB = 122 * 1024


def declared(models: Mapping[str, Any], **changes: Any) -> Declared:
    return wanted(knob_data(models=dict(models), **changes))


def planned(
    models: Mapping[str, Any] = SET, count: int = 4, slots: Mapping[str, int] | None = None, **more: Any
) -> Plan:
    of = declared(models, **more)
    return make_plan(of, [one_with(node, MIB) for node in nodes(count, of.knobs)], slots=slots)


def one_with(node: Any, memory_mib: int) -> Any:
    return type(node)(**{**node.__dict__, "memory_mib": memory_mib})


def text(of: NodePlan, unit: str, name: str) -> str:
    service = of.services[unit]
    assert service
    return next(file.content for file in service.files if file.path.endswith(f"/{name}"))


def test_each_lies_where_it_shall_under_a_name_of_its_own() -> None:
    of = planned()
    lies = {node.node.name: list(node.engines) for node in of.nodes}
    assert lies == {
        "spark-1": ["tandem-engine-chat", "tandem-engine-embed"],
        "spark-2": ["tandem-engine-chat"],
        "spark-3": ["tandem-engine-coder"],
        "spark-4": ["tandem-engine-coder"],
    }
    for node in of.nodes:
        for unit, service in node.engines.items():
            folder = f"/etc/tandem/{unit.removeprefix('tandem-')}/"
            paths = {file.path for file in service.files if not file.path.startswith(folder)}
            assert paths == {f"/etc/systemd/system/{unit}.service"}
            assert f"--name {unit} " in text(node, unit, "run.sh") and f"{unit.removeprefix('tandem-')}.cid" in text(
                node, unit, "run.sh"
            )
            assert not any("tandem-engine " in file.content or "/engine/" in file.content for file in service.files)


def test_ports_are_apart_and_stay_where_they_are() -> None:
    of = planned()
    assert {each.name: each.knobs.engine_port for each in of.models} == {"chat": 8001, "coder": 8002, "embed": 8003}
    assert {each.name: each.knobs.cluster_ports for each in of.models} == {
        "chat": 26000,
        "coder": 26300,
        "embed": 26600,
    }
    slots = {each.name: each.slot for each in of.models}
    # One is taken away: the others keep theirs, and a new one gets what is free.
    rest = {name: words for name, words in SET.items() if name != "chat"}
    new = {"new": {"recipe": TINY, "topology": "solo", "served_name": "new", "nodes": ["spark-2"]}}
    again = planned({**new, **rest}, slots=slots)
    assert {each.name: each.slot for each in again.models} == {"new": 0, "coder": 1, "embed": 2}
    assert again.of("spark-3").engines == of.of("spark-3").engines
    assert text(of.of("spark-3"), "tandem-engine-coder", "slot") == "1\n"


def test_two_nodes_that_say_the_same_port_of_two_models_do_not_make_them_share_it() -> None:
    of = planned(slots={"chat": 1, "embed": 1})
    assert sorted(each.slot for each in of.models) == [0, 1, 2]


def test_what_is_said_of_one_changes_nothing_of_the_others() -> None:
    of, other = planned(), planned({**SET, "embed": {**SET["embed"], "memory_gib": 9}})
    without = planned({name: words for name, words in SET.items() if name != "embed"}, slots={"chat": 0, "coder": 1})
    for node in of.nodes:
        for unit, service in node.engines.items():
            same = other.of(node.node.name).engines[unit].spec == service.spec
            assert same == (unit != "tandem-engine-embed")
    # A rank that shares its node waits for its turn to load; one that does not is as it was.
    assert without.of("spark-3").engines == of.of("spark-3").engines


def test_ranks_count_within_their_model() -> None:
    models = {"chat": {"recipe": TINY, "topology": "cluster", "nodes": ["spark-4", "spark-2"]}, "embed": SET["embed"]}
    of = planned(models, executor="mp")
    start = text(of.of("spark-4"), "tandem-engine-chat", "start.sh")
    assert "--node-rank 0" in start and "--master-addr 192.168.177.14" in start and "--headless" not in start
    assert "--node-rank 1" in text(of.of("spark-2"), "tandem-engine-chat", "start.sh")
    assert of.models[0].endpoints == {"spark-4": "http://192.168.177.14:8001"}
    assert [node.node.name for node in of.serving] == ["spark-1", "spark-2", "spark-4"] and of.nodes[2].proxy is None


def test_every_proxy_knows_all_models() -> None:
    of = planned()
    for node in of.serving:
        config = yaml.safe_load(text(node, "tandem-litellm-a", "config.yaml"))
        known = [(each["model_name"], each["litellm_params"]["api_base"]) for each in config["model_list"]]
        assert known == [
            ("tiny-llama", "http://192.168.177.11:8001/v1"),
            ("coder", "http://192.168.177.13:8002/v1"),
            ("coder", "http://192.168.177.14:8002/v1"),
            ("embed", "http://192.168.177.11:8003/v1"),
        ]
    assert set(of.urls) == {"spark-1", "spark-2", "spark-3", "spark-4"}


def test_canary_and_guard_know_each_and_the_owner_s_order() -> None:
    of = planned()
    canary = json.loads(text(of.head, "tandem-canary", "canary.json"))["engines"]
    assert canary["tandem-engine-chat"]["peers"] == {"spark-2": "192.168.177.12"}
    assert canary["tandem-engine-embed"]["peers"] == {}
    guard = json.loads(text(of.head, "tandem-guard", "guard.json"))["containers"]
    assert list(guard) == ["tandem-engine-embed", "tandem-engine-chat"]


def test_those_that_share_a_node_load_one_after_the_other() -> None:
    of = planned()
    ready = text(of.head, "tandem-engine-embed", "ready.sh")
    assert 'turn.py" tandem-engine-embed http://192.168.177.11:8003/metrics' in ready
    assert "turn.py" in text(of.head, "tandem-engine-chat", "ready.sh")
    assert "meeting.json" in next(
        line for line in text(of.head, "tandem-engine-chat", "ready.sh").splitlines() if "turn.py" in line
    )
    assert "turn.py" not in text(of.of("spark-2"), "tandem-engine-chat", "ready.sh")


def test_its_share_of_memory_is_said_to_an_engine_on_a_gpu() -> None:
    recipe = "qwen3.6-35b-a3b-nvfp4"
    of = planned({"chat": {"recipe": recipe, "topology": "solo", "nodes": ["spark-1"], "memory_gib": 61}})
    assert "--gpu-memory-utilization 0.500" in text(of.head, "tandem-engine-chat", "start.sh")
    assert "memory_mib=62464" in text(of.head, "tandem-engine-chat", "ready.sh")


def test_a_set_that_does_not_fit_is_refused_with_a_table() -> None:
    with pytest.raises(Refusal) as refused:
        planned({**SET, "embed": {**SET["embed"], "memory_gib": 60}})
    said = str(refused.value)
    assert "spark-1" in said and "its models take 120.0 GiB together, 118.0 GiB is the limit" in said
    for name, gib in (("chat", 60.0), ("embed", 60.0), ("sum", 120.0), ("limit", 118.0)):
        assert f"spark-1  {name.ljust(5)}  {gib:7.1f} GiB" in said


def test_one_that_says_nothing_of_its_memory_can_t_share_a_node(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Recipe, "memory_gib", lambda _self, _topology: 0.0)
    silent = {name: {key: word for key, word in words.items() if key != "memory_gib"} for name, words in SET.items()}
    trt = "nemotron-3-super-nvfp4-trtllm"
    silent["embed"] = {"recipe": trt, "topology": "solo", "nodes": ["spark-1"]}
    with pytest.raises(Refusal, match="shares spark-1 with chat, and nobody says how much memory it takes"):
        planned(silent)


WRONG: list[tuple[dict[str, Any], str]] = [
    ({"Chat": {"recipe": TINY}}, "'Chat' is no name of a model"),
    ({"chat": {"topology": "solo"}}, "models.chat  has no recipe"),
    ({"chat": {"recipe": TINY, "topolgy": "solo"}}, "no knob of a model is named `topolgy`"),
    ({"chat": {"recipe": TINY, "proxy_port": 9000}}, "`proxy_port` is not one model's"),
    ({"chat": {"recipe": TINY, "topology": "duo"}}, "models.chat  topology='duo'"),
    ({"chat": {"recipe": TINY, "memory_gib": 0}}, "memory_gib=0: expected GiB, more than 0"),
    ({"chat": {"recipe": TINY, "memory_gib": True}}, "memory_gib=True: expected GiB"),
    ({"chat": {"recipe": TINY, "nodes": [1]}}, "nodes=[1]: expected names of nodes"),
    ({"chat": {"recipe": TINY, "nodes": ["spark-1", "spark-1"]}}, "names a node twice"),
    ({"chat": {"recipe": TINY, "served_name": "a b"}}, "served_name='a b'"),
    ({"chat": {"recipe": TINY}, "two": {"recipe": TINY}}, "models.two  serves `tiny-llama`, and so does `chat`"),
    ({"chat": {"recipe": "no-such"}}, "models.chat  "),
    ({str(n): {"recipe": TINY, "served_name": str(n)} for n in range(9)}, "9 models, expected 8 at most"),
]


@pytest.mark.parametrize(("models", "said"), WRONG, ids=[said for _, said in WRONG])
def test_what_can_t_be_is_refused_in_a_line_with_the_remedy(models: dict[str, Any], said: str) -> None:
    with pytest.raises(Refusal) as refused:
        declared(models)
    assert said in str(refused.value) and "->" in str(refused.value)


@pytest.mark.parametrize(
    ("models", "more", "said"),
    [
        ({"chat": {"recipe": TINY, "nodes": ["spark-9"]}}, {}, "no node of the inventory is named `spark-9`"),
        ({"chat": {"recipe": TINY, "topology": "cluster", "nodes": ["spark-1"]}}, {}, "models.chat has 1"),
        (
            {"chat": {"recipe": TINY, "topology": "solo", "nodes": ["spark-1", "spark-2"]}},
            {},
            "is one engine on one node",
        ),
        ({"chat": {"recipe": TINY, "topology": "solo", "nodes": "spark-2"}}, {}, "no model lies on spark-1, the head"),
        (SET, {"fallback": "solo"}, "fallback='solo' is for a model that has all nodes to itself"),
    ],
)
def test_what_the_nodes_can_t_give_is_refused(models: dict[str, Any], more: dict[str, Any], said: str) -> None:
    with pytest.raises(Refusal) as refused:
        planned(models, **more)
    assert said in str(refused.value)


@pytest.mark.parametrize(("knob", "port"), [("page_port", 8008), ("monitoring_port", 26400), ("proxy_port", 8005)])
def test_ports_of_models_are_nobody_else_s(knob: str, port: int) -> None:
    with pytest.raises(Refusal, match=f"{knob}={port} lies within the"):
        declared(SET, **{knob: port})
    assert knobs(**{knob: port})


def test_one_value_of_one_model_is_changed_for_one_run() -> None:
    data = knob_data(models=SET) | {"models.embed.nodes": "spark-2", "models.coder.topology": "solo"}
    with pytest.raises(Refusal, match=r"models\.coder has 2"):
        make_plan(wanted(data), nodes(4, knobs()))
    of = wanted(knob_data(models=SET) | {"models.embed.nodes": "spark-2"})
    assert [each.nodes for each in of.models] == [("spark-1", "spark-2"), ("spark-3", "spark-4"), ("spark-2",)]
    with pytest.raises(Refusal, match="no model is named `codr`"):
        wanted(knob_data(models=SET) | {"models.codr.topology": "solo"})


def test_a_verb_is_about_the_model_that_it_is_told() -> None:
    of = declared(SET)
    assert [each.name for each in chosen(of, None)] == ["chat", "coder", "embed"]
    assert one_of(of, "coder").recipe.served_name == "coder"
    with pytest.raises(Refusal, match="several models are declared"):
        one_of(of, None)
    with pytest.raises(Refusal, match="no model is named `codr`"):
        chosen(of, "codr")


def test_one_node_with_two_models_needs_no_fabric() -> None:
    models = {
        name: {**words, "topology": "solo", "nodes": ["spark-1"]} for name, words in SET.items() if name != "coder"
    }
    of = planned(models, count=2)
    assert [each.endpoints for each in of.models] == [
        {"spark-1": "http://127.0.0.1:8001"},
        {"spark-1": "http://127.0.0.1:8002"},
    ]
    assert of.knobs.topology == "solo" and not of.nodes[1].fabric
