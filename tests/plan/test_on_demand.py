"""Models on demand in a plan: what can't be, what fits, and what each program of a node knows of them."""

from __future__ import annotations

import json
import re
from typing import Any

import pytest
import yaml

from operations.plan.config.refusal import Refusal
from operations.plan.config.spark import FLOOR_GIB, IDLE_GIB
from operations.plan.decide.actions import AwaitEngine, LeaveToDemand, ServiceStops, Stop
from operations.plan.decide.unit_state import differences
from operations.plan.declared import LEAST_IDLE_MINUTES
from operations.plan.history import restore
from operations.plan.services import demand, ports
from operations.plan.wanted import wanted
from tests.deploy.decided import decided, start
from tests.deploy.fake import contents_of, look
from tests.deploy.fake import planned as deployed
from tests.node.shipped import part
from tests.plan.samples import ROOT, knob_data, survey
from tests.plan.test_history import kept
from tests.plan.test_models import TINY, declared, planned, text

ON_DEMAND = {"recipe": TINY, "topology": "solo", "nodes": ["spark-1"], "on_demand": True}
#: One that stays loaded, and two on demand that never fit beside each other.
THREE: dict[str, dict[str, Any]] = {
    "chat": {"recipe": TINY, "topology": "solo", "nodes": ["spark-1"], "memory_gib": 50},
    "code": {**ON_DEMAND, "served_name": "code", "memory_gib": 60},
    "draw": {**ON_DEMAND, "served_name": "draw", "memory_gib": 40, "idle_minutes": 5},
}
ENGINES = ["tandem-engine-chat", "tandem-engine-code", "tandem-engine-draw"]


def said(**words: Any) -> str:
    """How a model with these words is refused."""
    with pytest.raises(Refusal) as refused:
        declared({"code": {**ON_DEMAND, **words}})
    (finding,) = refused.value.findings
    assert finding.remedy
    return f"{finding.where}: {finding.problem}"


@pytest.mark.parametrize(
    ("words", "problem"),
    [
        *(
            ({"idle_minutes": each}, f"idle_minutes={each!r}: expected minutes, 2 at the least and less than")
            for each in (0, -5, 1.9, True, "5", None, float("nan"), float("inf"))
        ),
        ({"on_demand": "yes"}, "on_demand='yes': expected True or False"),
        ({"on_demand": 1}, "on_demand=1: expected True or False"),
        ({"on_demand": False, "idle_minutes": 5}, "idle_minutes=5, and it is not on demand: it stays loaded"),
        ({"topology": "cluster"}, "on_demand with topology=cluster: each node loads and unloads by itself"),
        ({"topology": "replicas"}, "on_demand with topology=replicas: several engines are there for many"),
    ],
    ids=str,
)
def test_what_can_t_be_is_refused_in_a_line(words: dict[str, Any], problem: str) -> None:
    assert said(**words).startswith(f"models.code: {problem}")


@pytest.mark.parametrize(("value", "minutes"), [("True", 30.0), ("False", 0.0), (True, 30.0)])
def test_it_may_be_said_for_one_run(value: object, minutes: float) -> None:
    models = {"code": {word: value for word, value in ON_DEMAND.items() if word != "on_demand"}}
    of = wanted(knob_data(models=models) | {"models.code.on_demand": value})
    assert of.models[0].idle_minutes == minutes


def test_its_program_is_started_again_whatever_it_ends_of_and_has_one_capability() -> None:
    unit = next(
        file.content
        for file in planned(THREE, count=1).head.services["tandem-ondemand"].files
        if file.path.endswith(".service")
    )
    lines = unit.splitlines()
    assert {"Restart=always", "RestartSec=5", "CapabilityBoundingSet=CAP_DAC_READ_SEARCH"} <= {*lines}
    assert {"NoNewPrivileges=yes", "ProtectSystem=strict", "SystemCallFilter=@system-service"} <= {*lines}


def test_the_only_model_may_be_on_demand() -> None:
    of = planned({"code": ON_DEMAND}, count=1)
    assert of.models[0].idle_minutes == 30 and "tandem-ondemand" in of.head.services
    assert planned({"code": {**ON_DEMAND, "memory_gib": 118}}, count=1).models
    with pytest.raises(Refusal, match=r"code takes 119\.0 GiB on demand, 118\.0 GiB are left for it even alone"):
        planned({"code": {**ON_DEMAND, "memory_gib": 119}}, count=1)


def test_the_least_idle_minutes_leave_time_to_come_back() -> None:
    tenants = part("ondemand", "tenants")
    assert LEAST_IDLE_MINUTES * 60 > tenants.KEPT_S
    assert planned({"code": {**ON_DEMAND, "idle_minutes": LEAST_IDLE_MINUTES}}, count=1).models[0].idle_minutes == 2


def test_two_that_never_fit_together_are_fine_and_each_has_to_fit_beside_those_that_stay() -> None:
    assert [each.is_on_demand for each in planned(THREE, count=1).models] == [False, True, True]
    with pytest.raises(Refusal) as refused:
        planned({**THREE, "code": {**THREE["code"], "memory_gib": 70}}, count=1)
    assert "code takes 70.0 GiB on demand, 68.0 GiB are left for it beside chat, which stay loaded" in str(
        refused.value
    )
    assert "spark-1  code      70.0 GiB" in str(refused.value) and "draw" not in str(refused.value)


def test_one_that_does_not_fit_even_alone_is_refused() -> None:
    # They would fit without the one that is larger than the node.
    models = {name: {**THREE[name], "memory_gib": gib} for name, gib in (("code", 119), ("draw", 40))}
    with pytest.raises(Refusal, match=r"code takes 119\.0 GiB on demand, 118\.0 GiB are left for it even alone"):
        planned(models, count=1)


def test_those_that_stay_have_to_fit_as_ever() -> None:
    models = {**THREE, "more": {**THREE["chat"], "served_name": "more", "memory_gib": 80}}
    with pytest.raises(Refusal, match=r"its models take 130\.0 GiB together, 118\.0 GiB is the limit"):
        planned(models, count=1)


def before_a_deploy(models: dict[str, Any], gib: float, *active: str) -> list[str]:
    """What a deploy finds against models, where so much is available and these units run."""
    found: Any = survey()
    found["memory"] |= {"total_mib": 122 * 1024, "available_mib": round(gib * 1024)}
    found["state"]["services"]["units"] = {unit: {"ActiveState": "active"} for unit in active}
    return [problem for problem, *_ in demand.check(found, planned(models, count=1).models, 0.0, FLOOR_GIB)]


def test_a_deploy_demands_what_stays_the_greatest_on_demand_and_the_guard_s_floor() -> None:
    lacks = "has 113.0 GiB of memory available, its models need 114.0 together"
    assert [before_a_deploy(THREE, gib) for gib in (115, 113)] == [[], [lacks]]
    # What loads one leaves that floor: so much would never be there for `code` alone.
    alone = {"code": {**THREE["code"], "memory_gib": 104}}
    assert before_a_deploy(alone, 109) == []
    assert before_a_deploy(alone, 107) == ["has 107.0 GiB of memory available, the recipe needs 108"]


def test_a_deploy_demands_it_beside_what_serves_as_well() -> None:
    chat, code, draw = ENGINES
    lacks = "has 110.0 GiB of memory available, its models need 114.0 together"
    assert before_a_deploy(THREE, 60, chat) == [lacks]
    assert before_a_deploy(THREE, 20, chat, draw) == [lacks]
    assert before_a_deploy(THREE, 64, chat) == before_a_deploy(THREE, 4, chat, code) == []
    # Another plan's may have had all of the node, by the same name or by another: nobody knows what comes back.
    assert before_a_deploy(THREE, 8, chat) == before_a_deploy(THREE, 60, chat, "tandem-engine") == []
    stay = {"chat": THREE["chat"], "draw": {**THREE["draw"], "memory_gib": 30}}
    stay["draw"] = {word: value for word, value in stay["draw"].items() if word not in ("on_demand", "idle_minutes")}
    assert before_a_deploy(stay, 52, chat) == []


def test_the_example_of_the_page_fits_every_idle_spark() -> None:
    page = (ROOT / "docs/on-demand.md").read_text()
    gib = {name: float(said) for name, said in re.findall(r'^ +"(\w+)": .*"memory_gib": (\d+)', page, re.MULTILINE)}
    assert set(gib) == set(THREE)
    models = {name: {**words, "memory_gib": gib[name]} for name, words in THREE.items()}
    assert [before_a_deploy(models, least) for least in IDLE_GIB] == [[], []]
    assert sum(gib.values()) + FLOOR_GIB > IDLE_GIB[1], "two in turn would be none"
    assert "{:.0f} to {:.0f} GiB".format(*IDLE_GIB) in page


def test_the_node_knows_what_each_takes_and_what_stays() -> None:
    of = planned(THREE, count=1, memory_floor_gib=4)
    told = json.loads(text(of.head, "tandem-ondemand", "ondemand.json"))
    assert (told["stay"], told["stay_mib"], told["floor_mib"]) == (["tiny-llama"], 50 * 1024, 4096)
    assert list(told["models"]) == ENGINES[1:]
    draw = told["models"]["tandem-engine-draw"]
    assert (draw["need_mib"], draw["idle_s"], draw["model"]) == (40 * 1024, 300, "draw")
    assert (draw["address"], draw["port"], draw["url"]) == ("127.0.0.1", 8003, "http://127.0.0.1:8003/metrics")
    assert draw["spec"] == of.head.container("tandem-engine-draw").spec
    # One that stays loaded may load first, at a boot, and holds the turn.
    assert draw["most_s"] == 2 * sum(each.recipe.load_minutes * 60 for each in of.models if each.name != "code")
    plain = planned({"chat": THREE["chat"]}, count=1)
    assert "tandem-ondemand" not in plain.head.services


def test_every_door_knows_where_it_is_asked_for_and_the_firewall_lets_nobody_else() -> None:
    models = {**THREE, "far": {**ON_DEMAND, "nodes": ["spark-2"], "served_name": "far", "memory_gib": 20}}
    of = planned(models, count=2)
    for node in of.nodes:
        config = yaml.safe_load(text(node, "tandem-litellm-a", "config.yaml"))
        asked = {each["model_name"]: each.get("model_info", {}).get("loaded_by") for each in config["model_list"]}
        assert asked == {
            "tiny-llama": None,
            "code": "http://192.168.177.11:26013/tandem-engine-code",
            "draw": "http://192.168.177.11:26013/tandem-engine-draw",
            "far": "http://192.168.177.12:26013/tandem-engine-far",
        }
        told = json.loads(text(node, "tandem-ondemand", "ondemand.json"))
        assert f"http://{told['address']}:{told['port']}/" in asked["far" if node.node.index else "code"]
        assert 26013 in ports.listens(node.node, of.knobs, 2, of.on(node.node.name))
        assert "26013" in text(node, "tandem-firewall", "tandem.nft")


def test_the_guard_ends_one_on_demand_before_those_that_stay() -> None:
    models = {name: THREE[name] for name in ("code", "chat", "draw")}
    guard = json.loads(text(planned(models, count=1).head, "tandem-guard", "guard.json"))["containers"]
    assert list(guard) == ["tandem-engine-draw", "tandem-engine-code", "tandem-engine-chat"]


def test_page_and_alarms_know_that_one_may_rest() -> None:
    of = planned(THREE, count=1, monitoring="metrics")
    page = json.loads(text(of.head, "tandem-page", "page.json"))["models"]
    exporter = json.loads(text(of.head, "tandem-exporter", "exporter.json"))["facts"]["plans"]
    for rows in (page, exporter):
        assert [each.get("on_demand", "") for each in rows] == ["", "yes", "yes"]


def test_an_engine_on_demand_changes_nothing_of_another_one() -> None:
    stay = {**THREE, "draw": {**THREE["draw"], "memory_gib": 8}}
    stay["draw"] = {word: value for word, value in stay["draw"].items() if word not in ("on_demand", "idle_minutes")}
    of, was = planned({**THREE, "draw": {**THREE["draw"], "memory_gib": 8}}, count=1), planned(stay, count=1)
    for unit in ENGINES:
        assert of.head.container(unit).spec == was.head.container(unit).spec


NAMES = ("@fake/spark-1",)


def on_one() -> Any:
    models = {name: {**words, "nodes": list(NAMES), "memory_gib": 30} for name, words in THREE.items()}
    return deployed(names=NAMES, models=models)


def test_a_deploy_starts_none_that_is_on_demand_and_stops_none_that_is_loaded() -> None:
    of = on_one()
    found: Any = look(of, NAMES[0])
    for unit in ENGINES[1:]:
        found["services"]["units"][unit] |= {"UnitFileState": "disabled"}
    # One is loaded, the other is not.
    found["services"]["units"][ENGINES[2]] = {"ActiveState": "inactive", "UnitFileState": "disabled"}
    done = decided(of, [found])
    assert done.commands == [] and not done.refused
    assert [each.unit for each in done.of(AwaitEngine) if isinstance(each, AwaitEngine)] == [ENGINES[0]]
    for unit in ENGINES:
        assert differences(found, of.head.container(unit)) == []


def test_one_that_is_on_demand_from_now_on_serves_on_and_starts_at_no_boot() -> None:
    of = on_one()
    done = decided(of, [look(of, NAMES[0])])
    assert [action for _, action in done.actions if isinstance(action, LeaveToDemand)] == [
        LeaveToDemand(unit) for unit in ENGINES[1:]
    ]
    assert not any(isinstance(action, Stop) for _, action in done.actions)


def test_one_that_is_loaded_as_an_older_plan_had_it_ends_and_nobody_counts_that_as_away() -> None:
    of = on_one()
    found: Any = look(of, NAMES[0])
    found["services"]["units"][ENGINES[1]] |= {"UnitFileState": "disabled", "spec": "older"}
    done = decided(of, [found])
    assert [action for _, action in done.actions if isinstance(action, Stop | ServiceStops)] == [Stop(ENGINES[1])]
    assert not any(start(ENGINES[1]) in action for _, action in done.commands)


def test_a_plan_that_is_gone_back_to_has_them_on_demand_again() -> None:
    of = on_one()
    back = restore(kept(of), {}, contents_of(of))
    assert [each.idle_minutes for each in back.models] == [0, 30, 5]
