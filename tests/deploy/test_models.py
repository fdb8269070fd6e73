"""Deploys of several models: what one of them goes through is nothing to the others."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from operations.paths import CANARY, GUARD, LITELLM
from operations.plan.config.refusal import Refusal, as_table
from operations.plan.decide import preflight
from operations.plan.plan import check_topology
from operations.plan.wanted import wanted
from tests.deploy import fake
from tests.deploy.decided import decided, start, stop
from tests.deploy.fake import FOUR, NAMES, OFF, Outcome, declares, deploy, look, planned
from tests.deploy.foreign import foreign
from tests.plan.samples import knob_data, survey

TINY = "lab-tiny-llama"
A = {"a": {"recipe": TINY, "topology": "replicas", "nodes": list(NAMES), "served_name": "one", "memory_gib": 40}}
B = {"b": {"recipe": TINY, "topology": "solo", "nodes": [NAMES[0]], "served_name": "two", "memory_gib": 8}}
BOTH = {**A, **B}
STOP, START = "systemctl stop tandem-engine-{}.service", "systemctl start --no-block tandem-engine-{}.service"


def as_planned(models: Mapping[str, Any], slots: Mapping[str, int] | None = None, **more: Any) -> list[dict[str, Any]]:
    return fake.as_planned(slots=slots, models=models, **more)


def run(
    tmp_path: Path, states: list[dict[str, Any]], models: Mapping[str, Any], *arguments: str, **more: Any
) -> Outcome:
    return deploy(tmp_path, states, "-y", *arguments, inventory=declares(models), **more)


def of(outcome: Outcome, *words: str) -> list[tuple[str, str]]:
    """Commands that have one of these words in them."""
    return [each for each in outcome.commands if any(word in each[1] for word in words)]


def acts(outcome: Outcome, name: str) -> list[tuple[str, str]]:
    """Commands about the unit of a model's engine, its container or its unit's file."""
    return of(outcome, f"tandem-engine-{name}")


def untouched(outcome: Outcome, name: str) -> bool:
    return not acts(outcome, name)


def test_nodes_that_are_as_planned_see_no_change(tmp_path: Path) -> None:
    outcome = run(tmp_path, as_planned(BOTH), BOTH, "--json")
    assert outcome.code == 0, outcome.text
    totals = json.loads(outcome.json)["results"]["totals"]
    assert totals["no_change"] > 30 and totals["no_change"] == totals["hosts"]
    assert outcome.commands == []


def test_one_that_comes_touches_nothing_of_the_one_that_serves(tmp_path: Path) -> None:
    outcome = run(tmp_path, as_planned(A), BOTH)
    assert outcome.code == 0, outcome.text
    outcome.position(1, START.format("b"))
    assert {node for node, _ in acts(outcome, "b")} == {"spark-1"}
    assert untouched(outcome, "a"), acts(outcome, "a")
    # Its next start waits for its turn, beside the other; where nobody is beside it nothing is written.
    written = of(outcome, "/etc/tandem/engine-a/")
    assert {node for node, _ in written} == {"spark-1"}
    assert [any(file in command for _, command in written) for file in ("ready.sh", "turn.py", "start.sh")] == [
        *(True, True, False)
    ]
    # Both LiteLLM of each node have another configuration, and go on.
    for node in (1, 2):
        for unit in LITELLM:
            outcome.position(node, f"/etc/tandem/{unit.removeprefix('tandem-')}/config.yaml")
    assert not of(outcome, *(f"systemctl {verb} {unit}" for verb in ("stop", "restart") for unit in LITELLM))
    # Who watches is told.
    for unit in (CANARY, GUARD):
        outcome.position(1, f"systemctl stop {unit}.service")


def test_a_litellm_that_does_not_take_it_up_is_renewed(tmp_path: Path) -> None:
    outcome = run(tmp_path, as_planned(A), BOTH, programs={"door.drained": {"left": 0, "taken": 0}})
    assert outcome.code == 0, outcome.text
    outcome.position(2, f"systemctl stop {LITELLM[0]}.service")


def test_one_that_goes_leaves_the_others_as_they_are(tmp_path: Path) -> None:
    outcome = run(tmp_path, as_planned(BOTH), A)
    assert outcome.code == 0, outcome.text
    gone = outcome.position(
        1, "systemctl --no-reload disable --now --quiet tandem-engine-b.service && rm -rf /etc/systemd/system/"
    )
    assert "find /etc/tandem/engine-b -maxdepth 1 -type f -delete" in outcome.commands[gone][1]
    assert {node for node, _ in acts(outcome, "b")} == {"spark-1"}
    assert untouched(outcome, "a"), acts(outcome, "a")
    assert not of(outcome, *(f"systemctl {verb} {unit}" for verb in ("stop", "restart") for unit in LITELLM))


def test_from_one_model_to_several_the_old_engine_goes(tmp_path: Path) -> None:
    plan = planned(topology="solo", recipe=TINY)
    outcome = run(tmp_path, [look(plan, name) for name in NAMES], B)
    assert outcome.code == 0, outcome.text
    gone = outcome.position(1, "systemctl --no-reload disable --now --quiet tandem-engine.service")
    assert gone < outcome.position(1, START.format("b"))


def test_two_that_do_not_fit_are_refused_with_a_table(tmp_path: Path) -> None:
    models = {**A, "b": {**B["b"], "memory_gib": 90}}
    outcome = run(tmp_path, as_planned(A), models)
    assert outcome.refused and outcome.commands == [] and "Traceback" not in outcome.text
    assert "nothing was changed; this has to be put right first" in outcome.text
    assert "its models take 130.0 GiB together, 115.1 GiB is the limit" in outcome.text
    for name, gib in (("a", "40.0"), ("b", "90.0"), ("sum", "130.0"), ("limit", "115.1")):
        assert f"{NAMES[0]}  {name.ljust(5)}  {gib.rjust(7)} GiB" in outcome.text
    assert f"{NAMES[1]}  a" not in outcome.text


def test_what_is_changed_of_one_restarts_it_alone() -> None:
    changed = {**A, "b": {**B["b"], "served_name": "three"}}
    outcome = decided(planned(models=changed), as_planned(BOTH))
    assert outcome.position(1, "/etc/tandem/engine-b/run.sh") < outcome.position(1, stop("tandem-engine-b"))
    assert not [said for _, said in outcome.commands if "engine-a" in said]
    assert {node for node, said in outcome.commands if "tandem-engine-b" in said} == {"spark-1"}


def test_replicas_of_one_are_renewed_in_turn_beside_the_other() -> None:
    states = as_planned(BOTH)
    for state in states:
        state["services"]["units"]["tandem-engine-a"]["spec"] = "older"
    outcome = decided(planned(models=BOTH), states)
    assert not outcome.refused
    stops = [outcome.position(node, stop("tandem-engine-a")) for node in (1, 2)]
    starts = [outcome.position(node, start("tandem-engine-a")) for node in (1, 2)]
    assert stops[0] < starts[0] < stops[1] < starts[1]
    assert not [said for _, said in outcome.commands if "engine-b" in said]


@pytest.mark.parametrize("shared", [True, False], ids=["each on the other's node", "alone on its nodes"])
def test_solos_that_would_wait_for_each_other_s_memory_wait_for_no_turn(shared: bool) -> None:
    a = {"a": {**A["a"], "memory_gib": 8}}
    models = {**a, "b": {**B["b"], "topology": "replicas", "nodes": list(NAMES)}} if shared else a
    states = as_planned(models)
    for number, name in enumerate(models):
        solo = {"spec": "older", "topology": "solo", "url": "http://127.0.0.1:8001"}
        states[number]["services"]["units"][f"tandem-engine-{name}"] |= solo
        states[1 - number]["services"]["units"][f"tandem-engine-{name}"] = {}
    outcome = decided(planned(models=models), states)
    stopped, started = outcome.position(1, stop("tandem-engine-a")), outcome.position(2, start("tandem-engine-a"))
    assert not outcome.refused and (stopped < started) == shared


def test_ports_stay_where_they_are(tmp_path: Path) -> None:
    states = as_planned(A, {"a": 1})
    outcome = run(tmp_path, states, {**B, **A})
    assert outcome.code == 0, outcome.text
    assert untouched(outcome, "a"), acts(outcome, "a")
    assert not of(outcome, "/etc/tandem/engine-a/slot")
    # Nothing is left to be done on nodes that have what this plan says.
    both = as_planned({**B, **A}, {"a": 1, "b": 0})
    again = run(tmp_path, both, {**B, **A})
    assert again.code == 0 and again.commands == [], again.text
    # The first deploy has written that, and nothing else.
    slots = [state["files"]["/etc/tandem/engine-b/slot"]["sha256"] for state in both[:1]]
    assert slots == [
        file.sha256 for file in planned(models=B).head.container("tandem-engine-b").files if _is_slot(file)
    ]


def _is_slot(file: Any) -> bool:
    return str(file.path).endswith("/slot")


def test_one_value_of_one_model_is_changed_for_one_run(tmp_path: Path) -> None:
    outcome = run(
        tmp_path, as_planned(BOTH), BOTH, "--data", "models.a.topology=solo", "--data", f"models.a.nodes={NAMES[1]}"
    )
    assert outcome.code == 0, outcome.text
    outcome.position(1, "systemctl --no-reload disable --now --quiet tandem-engine-a.service")
    assert outcome.position(2, "/etc/tandem/engine-a/run.sh") < outcome.position(2, STOP.format("a"))
    assert untouched(outcome, "b"), acts(outcome, "b")


@pytest.mark.parametrize(
    ("data", "said"),
    [
        ("models.bb.topology=solo", ["no model is named `bb`", "did you mean `b`?"]),
        ("models.b.topolgy=solo", ["models.b", "no knob of a model is named `topolgy`", "did you mean `topology`?"]),
        ("models.b.topology=cluster", ["models.b", "topology=cluster needs two nodes or more"]),
        ("models.b.proxy_port=9000", ["models.b", "`proxy_port` is not one model's", "set it outside of `models`"]),
        ("models.b.nodes=elsewhere", ["no node of the inventory is named `elsewhere`", "the nodes are:"]),
        ("models.b.served_name=one", ["serves `one`, and so does `a`", "served_name"]),
    ],
    ids=lambda value: str(value)[:28],
)
def test_a_mistake_is_one_line_with_a_remedy(data: str, said: list[str]) -> None:
    knob, _, value = data.partition("=")
    with pytest.raises(Refusal) as refused:
        check_topology(wanted({**knob_data(models=BOTH), knob: value}), NAMES)
    line = " ".join(as_table(refused.value.findings).split())
    assert line.count(" -> ") == 1, line
    for words in said:
        assert words in line


def test_a_cluster_that_goes_is_taken_from_each_of_its_nodes(tmp_path: Path) -> None:
    cluster = {"a": {**A["a"], "topology": "cluster", "nodes": [NAMES[1], NAMES[0]]}}
    stays = {"b": {**B["b"], "topology": "replicas", "nodes": list(NAMES)}}
    outcome = run(tmp_path, as_planned({**cluster, **stays}), stays)
    assert outcome.code == 0, outcome.text
    for node in (1, 2):
        outcome.position(node, "systemctl --no-reload disable --now --quiet tandem-engine-a.service")
    assert untouched(outcome, "b"), acts(outcome, "b")


def test_two_with_one_recipe_are_judged_each_by_its_own_knobs(tmp_path: Path) -> None:
    recipe = {"recipe": foreign(tmp_path), "model_revision": "d" * 40, "memory_gib": 40}
    models = {
        # In a cluster of two each node has a half of the weights.
        "a": {**recipe, "topology": "solo", "nodes": [NAMES[0]], "served_name": "one"},
        "b": {**recipe, "topology": "cluster", "nodes": list(NAMES), "served_name": "two"},
    }
    states = as_planned(models, executor="mp")
    for found in states[0]["models"].values():
        found["files"] = {"model-1.safetensors": {"size": 150 << 30, "blob": "b"}}
    outcome = run(tmp_path, states, models, "--data", "executor=mp")
    assert outcome.refused and outcome.commands == []
    assert "150 GiB of weights on each node do not fit a GB10's 119 GiB" in outcome.text


def test_the_head_has_to_have_room_for_what_lies_elsewhere(tmp_path: Path) -> None:
    words = {"topology": "solo", "nodes": [NAMES[1]], "recipe": "qwen3.6-35b-a3b-nvfp4", "memory_gib": 60}
    models = {**B, "a": {**A["a"], **words}}
    states = as_planned(models)
    for state in states:
        for found in state["models"].values():
            found["present"] = False
    disks = survey()["disks"]
    disks["store"] |= {"device": 2, "free": 26 << 30}
    outcome = run(tmp_path, states, models, disks=disks)
    assert outcome.refused and outcome.commands == []
    line = " ".join(outcome.text.partition("put right first:")[2].split())
    # The other node has room for the one that lies there.
    assert f"{NAMES[0]} {disks['store']['path']} has 26.0 GiB free, 26.01 GiB are needed" in line
    assert line.count(" -> ") == 1, line


#: Two on two of three nodes: nothing of the third one is needed.
TWO_OF_THREE = {"a": A["a"], "b": B["b"]}
THREE = FOUR[:3]


def three(links: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Nodes that are as planned, of which the third one has these changes of its links."""
    plan = planned(names=THREE, models=TWO_OF_THREE)
    states = [look(plan, name) for name in THREE]
    states[2]["links"] = {rail: {**link, **links} for rail, link in states[0]["links"].items()}
    return states


def untouched_network(tmp_path: Path, states: list[dict[str, Any]], **more: Any) -> None:
    """Nothing is done, and nobody asks the third node for a frame."""
    outcome = run(tmp_path, states, TWO_OF_THREE, failing={THREE[2]: ["network.proof:prove"]}, **more)
    assert outcome.code == 0 and outcome.commands == [], outcome.text


def test_a_node_without_a_model_keeps_its_network(tmp_path: Path) -> None:
    states = three({"carrier": False, "mtu": 1500, "addresses": ["10.9.8.7/24"]})
    theirs = {"file": "/etc/netplan/40-theirs.yaml", "device": "enp1s0f0np0", "gives": "an address"}
    said = {"look.survey": survey(state=states[2], netplan=[theirs])}
    untouched_network(tmp_path, states, by_node={THREE[2]: said})


def test_what_an_older_plan_has_left_of_a_fabric_stays_as_in_solo(tmp_path: Path) -> None:
    older = planned(names=THREE, topology="replicas")
    states = three({})
    states[2]["files"] |= {file.path: {"sha256": file.sha256, "mode": file.mode} for file in older.nodes[2].fabric}
    states[2]["links"] = look(older, THREE[2])["links"]
    untouched_network(tmp_path, states)


def unpinned(tmp_path: Path) -> dict[str, dict[str, Any]]:
    """Two models whose recipes name no revision, of two repositories."""
    models = {}
    for name in ("one", "two"):
        file = tmp_path / f"{name}.yaml"
        file.write_text(Path(foreign(tmp_path)).read_text().replace("org/model", f"org/{name}"))
        words = {"recipe": str(file), "topology": "solo", "nodes": [NAMES[0]], "served_name": name, "memory_gib": 40}
        models[name] = words
    return models


def pins(models: Mapping[str, Any], main: Mapping[str, str] | None = None, **more: Any) -> str:
    """What is said of revisions that these models do not name; `main`: what the Hub has, by repository."""
    head: Any = {"main": main or {}}
    return as_table(preflight.models_as_they_are(wanted(knob_data(models=models, **more)), (), head).findings)


def test_each_is_pinned_in_its_own_entry(tmp_path: Path) -> None:
    models, main = unpinned(tmp_path), {"org/one": "1" * 40, "org/two": "2" * 40}
    said = pins(models, main)
    for name in models:
        pin = f'"model_revision": "{main[f"org/{name}"]}" in models["{name}"] is what `main` is'
        assert f"names no revision of org/{name}" in said and pin in said
    # Whoever does what is said of the first one is told of the second one alone, and then of nothing.
    models["one"]["model_revision"] = main["org/one"]
    said = pins(models, main)
    assert said.count("names no revision of org/") == 1 and "names no revision of org/two" in said
    models["two"]["model_revision"] = main["org/two"]
    assert pins(models, main) == as_table(())


def test_a_pin_that_is_not_known_is_looked_up_for_its_own_entry(tmp_path: Path) -> None:
    assert 'set model_revision in models["one"] to a commit of it' in pins(unpinned(tmp_path))


def test_pins_that_hold_for_all_go_into_the_entry_that_takes_their_place(tmp_path: Path) -> None:
    models, main = unpinned(tmp_path), {"org/draft": "d" * 40}
    file = Path(models["one"]["recipe"])
    file.write_text(file.read_text().replace("org/one", "org/one --spec-model org/draft"))
    for name, words in models.items():
        words["model_revision"] = name[0].encode().hex()[0] * 40
    said = pins(models, main, model_revisions={"org/other": "e" * 40})
    both = json.dumps({"org/other": "e" * 40, "org/draft": "d" * 40})
    assert f'"model_revisions": {both} in models["one"] is what `main` is' in said


def test_a_commit_for_all_of_them_is_refused(tmp_path: Path) -> None:
    outcome = run(tmp_path, as_planned(BOTH), BOTH, "--data", f"model_revision={'d' * 40}")
    assert outcome.refused and outcome.commands == [] and "Traceback" not in outcome.text
    line = " ".join(outcome.text.partition("put right first:")[2].split())
    assert f"model_revision={'d' * 40} is a commit of one model" in line and line.count(" -> ") == 1
    assert "into the entry of its model, one of: a, b" in line


def test_a_node_that_is_off_is_not_made_up_for_by_a_topology(tmp_path: Path) -> None:
    outcome = run(tmp_path, [as_planned(BOTH)[0], OFF], {**B, "a": {**A["a"], "nodes": [NAMES[0], "spark-2"]}})
    assert outcome.refused and outcome.commands == []
    assert "or take it out of the inventory" in outcome.text and "topology=solo" not in outcome.text


def test_one_on_demand_is_started_by_no_deploy_and_at_no_boot(tmp_path: Path) -> None:
    on_demand = {**A, "b": B["b"] | {"on_demand": True}}
    states = as_planned(on_demand)
    # It stayed loaded until now, and serves on.
    outcome = run(tmp_path, states, on_demand)
    assert outcome.code == 0, outcome.text
    assert outcome.commands == [("spark-1", "systemctl disable --quiet tandem-engine-b.service")]
    states[0]["services"]["units"]["tandem-engine-b"] = {"ActiveState": "inactive", "UnitFileState": "disabled"}
    outcome = run(tmp_path, states, on_demand)
    assert outcome.code == 0 and outcome.commands == [], outcome.text
