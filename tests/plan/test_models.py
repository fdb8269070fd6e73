"""Several models in one plan: what each is called, where it lies and listens, and what can't be."""

from __future__ import annotations

import ast
import json
import re
from collections.abc import Mapping
from typing import Any

import pytest
import yaml

from operations.paths import PROXY
from operations.plan.config.refusal import Refusal
from operations.plan.declared import Declared, chosen, one_of
from operations.plan.plan import NodePlan, Plan, make_plan
from operations.plan.recipes.recipe import Recipe
from operations.plan.wanted import wanted
from operations.steps.fabric import peers_of
from tests.plan.samples import ROOT, engines_of, knob_data, knobs, nodes

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
    lies = {node.node.name: list(engines_of(node)) for node in of.nodes}
    assert lies == {
        "spark-1": ["tandem-engine-chat", "tandem-engine-embed"],
        "spark-2": ["tandem-engine-chat"],
        "spark-3": ["tandem-engine-coder"],
        "spark-4": ["tandem-engine-coder"],
    }
    for node in of.nodes:
        for unit, service in engines_of(node).items():
            folder = f"/etc/tandem/{unit.removeprefix('tandem-')}/"
            paths = {file.path for file in service.files if not file.path.startswith(folder)}
            assert paths == {f"/etc/systemd/system/{unit}.service"}
            assert f"--name {unit} " in text(node, unit, "run.sh") and f"{unit.removeprefix('tandem-')}.cid" in text(
                node, unit, "run.sh"
            )
            said = "".join(file.content for file in service.files)
            assert "tandem-engine " not in said and "/etc/tandem/engine/" not in said


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
    assert engines_of(again.of("spark-3")) == engines_of(of.of("spark-3"))
    assert text(of.of("spark-3"), "tandem-engine-coder", "slot") == "1\n"


def test_two_nodes_that_say_the_same_port_of_two_models_do_not_make_them_share_it() -> None:
    of = planned(slots={"chat": 1, "embed": 1})
    # The owner's first one keeps it, whatever they are called.
    assert {each.name: each.slot for each in of.models} == {"chat": 1, "coder": 0, "embed": 2}
    turned = {name: SET[name] for name in ("embed", "coder", "chat")}
    assert {each.name: each.slot for each in planned(turned, slots={"chat": 1, "embed": 1}).models}["embed"] == 1


def test_another_order_of_models_starts_no_proxy_anew() -> None:
    slots = {"chat": 0, "coder": 1, "embed": 2}
    of = planned()
    for names in (("embed", "chat", "coder"), ("coder", "embed")):
        other = planned({name: SET[name] for name in names}, slots=slots)
        for node in of.nodes:
            for unit in ("tandem-proxy", "tandem-litellm-a", "tandem-litellm-b"):
                now, then = other.of(node.node.name).services.get(unit), node.services[unit]
                assert not now or (then and now.spec == then.spec), (node.node.name, unit)
        assert text(other.of("spark-4"), "tandem-proxy", "model") == f"{other.models[0].recipe.served_name}\n"


def test_what_is_said_of_one_changes_nothing_of_the_others() -> None:
    of, other = planned(), planned({**SET, "embed": {**SET["embed"], "memory_gib": 9}})
    without = planned({name: words for name, words in SET.items() if name != "embed"}, slots={"chat": 0, "coder": 1})
    for node in of.nodes:
        for unit, service in engines_of(node).items():
            same = other.of(node.node.name).container(unit).spec == service.spec
            assert same == (unit != "tandem-engine-embed")
    # A rank that shares its node waits for its turn to load; one that does not is as it was.
    assert engines_of(without.of("spark-3")) == engines_of(of.of("spark-3"))


def test_ranks_count_within_their_model() -> None:
    models = {"chat": {"recipe": TINY, "topology": "cluster", "nodes": ["spark-4", "spark-2"]}, "embed": SET["embed"]}
    of = planned(models, executor="mp")
    start = text(of.of("spark-4"), "tandem-engine-chat", "start.sh")
    assert "--node-rank 0" in start and "--master-addr 192.168.177.14" in start and "--headless" not in start
    assert "--node-rank 1" in text(of.of("spark-2"), "tandem-engine-chat", "start.sh")
    assert of.models[0].endpoints == {"spark-4": "http://192.168.177.14:8001"}
    assert [node.node.name for node in of.serving] == ["spark-1", "spark-2", "spark-4"]
    assert PROXY not in of.nodes[2].services


def test_a_node_without_a_model_keeps_its_network() -> None:
    of = planned({"chat": SET["chat"], "embed": {**SET["embed"], "nodes": ["spark-4"]}})
    idle = of.of("spark-3")
    assert idle.fabric == () and (idle.node.rails, idle.node.subnets, idle.node.ends) == ((), (), ())
    assert not any(idle.services.values())
    assert all(of.of(name).fabric for name in ("spark-1", "spark-2", "spark-4"))
    # Nobody proves a way to it.
    assert set(peers_of(of, of.head.node)) == {"spark-2", "spark-4"}
    assert peers_of(of, of.of("spark-2").node)["spark-4"] == [
        ["enp1s0f0np0", "192.168.177.14"],
        ["enP2p1s0f0np0", "192.168.178.14"],
    ]


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
    # A rank loads when all have met: it has its turn then.
    assert "turn.py" not in text(of.head, "tandem-engine-chat", "ready.sh")
    run = "/run/tandem/engine-chat"
    words = f"tandem-engine-chat http://192.168.177.11:8001/metrics {run}/meeting.json {run}/turn"
    assert f"(until python3 -B /etc/tandem/engine-chat/turn.py {words} 61440 0; do sleep 1; done &)\n" in text(
        of.head, "tandem-engine-chat", "run.sh"
    )
    ranks = {
        name: json.loads(text(of.of(name), "tandem-engine-chat", "meeting.json")) for name in ("spark-1", "spark-2")
    }
    assert ranks["spark-1"]["turns"] == ranks["spark-2"]["turns"] == [0]
    assert ranks["spark-1"]["given"] == f"{run}/turn" and "given" not in ranks["spark-2"]
    assert "turn.py" not in text(of.of("spark-2"), "tandem-engine-chat", "run.sh")


def test_ranks_take_their_turns_in_an_order_of_the_nodes_that_is_every_model_s() -> None:
    there = {"recipe": TINY, "topology": "cluster", "memory_gib": 30}
    models = {
        "a": {**there, "nodes": ["spark-2", "spark-1"]},
        "b": {**there, "served_name": "b", "nodes": ["spark-1", "spark-2"]},
    }
    of = planned(models, count=2, executor="mp")
    for name, turns in (("a", [1, 0]), ("b", [0, 1])):
        assert json.loads(text(of.head, f"tandem-engine-{name}", "meeting.json"))["turns"] == turns


def test_its_share_of_memory_is_said_to_an_engine_on_a_gpu() -> None:
    recipe = "qwen3.6-35b-a3b-nvfp4"
    of = planned({"chat": {"recipe": recipe, "topology": "solo", "nodes": ["spark-1"], "memory_gib": 61}})
    assert "--gpu-memory-utilization 0.50" in text(of.head, "tandem-engine-chat", "start.sh")
    assert 'memory.py" 62464 500' in text(of.head, "tandem-engine-chat", "ready.sh")


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
    with pytest.raises(Refusal, match="shares spark-1 with chat, and nobody says how much memory it takes"):
        planned(silent)


WRONG: list[tuple[dict[str, Any], str]] = [
    ({"Chat": {"recipe": TINY}}, "'Chat' is no name of a model"),
    ({"chat": {"topology": "solo"}}, "models.chat  has no recipe"),
    ({"chat": {"recipe": TINY, "topolgy": "solo"}}, "no knob of a model is named `topolgy`"),
    ({"chat": {"recipe": TINY, "proxy_port": 9000}}, "`proxy_port` is not one model's"),
    ({"chat": {"recipe": TINY, "topology": "duo"}}, "models.chat  topology=duo"),
    ({"chat": {"recipe": TINY, "memory_gib": 0}}, "memory_gib=0: expected GiB, more than 0"),
    ({"chat": {"recipe": TINY, "memory_gib": True}}, "memory_gib=True: expected GiB"),
    *(
        ({"chat": {"recipe": TINY, "memory_gib": gib}}, f"memory_gib={gib!r}: expected GiB, more than 0 and less than")
        for gib in (float("nan"), float("inf"), 10**400)
    ),
    *(
        ({"chat": {"recipe": TINY, "nodes": each}}, f"nodes={each!r}: expected names of nodes")
        for each in ([1], [], "", " , ", None)
    ),
    ({"chat": {"recipe": TINY, "nodes": ["spark-1", "spark-1"]}}, "names a node twice"),
    ({"chat": {"recipe": TINY, "served_name": "a b"}}, "served_name='a b'"),
    *(
        ({"chat": {"recipe": TINY, "served_name": each}}, f"served_name={each!r}: expected text")
        for each in (None, 0, "", 3.1)
    ),
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
        (SET, {"fallback": "solo"}, "fallback=solo is for a model that has all nodes to itself"),
    ],
)
def test_what_the_nodes_can_t_give_is_refused(models: dict[str, Any], more: dict[str, Any], said: str) -> None:
    with pytest.raises(Refusal) as refused:
        planned(models, **more)
    assert said in str(refused.value)


@pytest.mark.parametrize(
    ("knob", "port"), [("prometheus_port", 8008), ("monitoring_port", 26400), ("proxy_port", 8005)]
)
def test_ports_of_models_are_nobody_else_s(knob: str, port: int) -> None:
    with pytest.raises(Refusal, match=f"{knob}={port} lies within the"):
        declared(SET, **{knob: port})
    assert knobs(**{knob: port})


@pytest.mark.parametrize(
    ("port", "said"),
    [
        *(
            (port, f"engine_port={port} reach into the 2400 ports that begin at cluster_ports=26000")
            for port in (25993, 26500, 28399)
        ),
        (65529, "engine_port=65529: 8 ports for models end above 65535"),
        (65535, "engine_port=65535: 8 ports for models end above 65535"),
    ],
)
def test_ports_of_models_engines_are_not_their_ranks_and_are_ports(port: int, said: str) -> None:
    with pytest.raises(Refusal) as refused:
        declared(SET, engine_port=port)
    (finding,) = refused.value.findings
    assert said in finding.problem
    assert knobs(engine_port=port)


@pytest.mark.parametrize("port", [25992, 28400, 65528])
def test_ports_of_models_engines_may_be_beside_their_ranks(port: int) -> None:
    assert declared(SET, engine_port=port)


def test_one_value_of_one_model_is_changed_for_one_run() -> None:
    data = knob_data(models=SET) | {"models.embed.nodes": "spark-2", "models.coder.topology": "solo"}
    with pytest.raises(Refusal, match=r"models\.coder has 2"):
        make_plan(wanted(data), nodes(4, knobs()))
    of = wanted(knob_data(models=SET) | {"models.embed.nodes": "spark-2"})
    assert [each.nodes for each in of.models] == [("spark-1", "spark-2"), ("spark-3", "spark-4"), ("spark-2",)]
    with pytest.raises(Refusal, match="no model is named `codr`"):
        wanted(knob_data(models=SET) | {"models.codr.topology": "solo"})
    with pytest.raises(Refusal, match=r"`models\.coder=solo` does not say which word .* `coder`") as refused:
        wanted(knob_data(models=SET) | {"models.coder": "solo"})
    assert "did you mean" not in str(refused.value) and "models.coder.WORD=value" in str(refused.value)


@pytest.mark.parametrize("models", [[], None, "chat", {"chat": "nemotron"}, {"chat": {1: 2}}, {1: {}}], ids=str)
@pytest.mark.parametrize("more", [{}, {"models.chat.topology": "solo"}], ids=["alone", "with a word for one run"])
def test_models_that_are_none_are_refused_in_a_line(models: Any, more: dict[str, Any]) -> None:
    with pytest.raises(Refusal) as refused:
        wanted(knob_data(models=models) | more)
    (finding,) = refused.value.findings
    assert finding.problem == f'models={models!r}: expected models by their names: {{"chat": {{"recipe": ...}}}}'


@pytest.mark.parametrize("page", ["docs/models.md", "docs/knobs.md", "group_data/all.py"])
def test_the_example_of_one_run_goes_with_the_models_beside_it(page: str) -> None:
    words = (ROOT / page).read_text().replace("\n#", "\n")
    (entry,) = re.findall(r"^ *models = (\{.+?^ *\})$", words, re.DOTALL | re.MULTILINE)
    models: dict[str, Any] = ast.literal_eval(entry.strip())
    for each in models.values():
        each["recipe"] = each["recipe"].replace("my-embedding", TINY)
    (key, value), *others = set(re.findall(r"(?:--data |DATA=\"|tandem apply )(models\.\S+?)=(\w+)", words))
    assert not others
    of = wanted(knob_data(models=models) | {key: value})
    assert make_plan(of, [one_with(node, MIB) for node in nodes(4, of.knobs)])
    _, name, word = key.split(".")
    assert models[name].get(word) != value


def test_one_commit_for_several_models_is_refused() -> None:
    with pytest.raises(Refusal) as refused:
        declared(SET, model_revision="d" * 40)
    (finding,) = refused.value.findings
    assert finding.problem.startswith(f"model_revision={'d' * 40} is a commit of one model")
    assert f'"model_revision": "{"d" * 40}"' in finding.remedy and finding.remedy.endswith("chat, coder, embed")
    # By their repositories they may be said for all.
    assert declared(SET, model_revisions={"org/draft": "d" * 40})


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
