"""Whose NCCL the ranks of a cluster load, when the recipe wants the system's."""

from __future__ import annotations

from typing import Any

import pytest

from operations.node.unit import journal
from operations.plan import nccl
from operations.plan.formats import load_recipe
from operations.plan.plan import Plan
from operations.plan.recipe import Recipe
from operations.plan.served_model import ranked
from tests.plan.samples import engine_of, knobs, make_plan, nodes


def planned(recipe: Recipe, *, rdma: bool = True, **changes: Any) -> Plan:
    wanted = knobs(**changes)
    return make_plan(recipe, wanted, nodes(2, wanted, rdma=rdma))


def variables(of: Plan, index: int) -> dict[str, str]:
    """What a rank's container has in its environment."""
    return dict(line.split("=", 1) for line in files(of, index)["engine.env"].splitlines() if "=" in line)


def files(of: Plan, index: int) -> dict[str, str]:
    engine = engine_of(of.nodes[index])
    return {file.path.rpartition("/")[2]: file.content for file in engine.files} if engine else {}


@pytest.mark.parametrize("executor", ["mp", "ray"])
def test_on_every_rank_the_system_s_library_is_put_in_place_before_anything_loads_one(executor: str) -> None:
    of = planned(load_recipe("nemotron-3-super-nvfp4-marlin").model_copy(update={"nccl": "system"}), executor=executor)
    for index in (0, 1):
        found = files(of, index)
        lines = found["start.sh"].splitlines()
        commands = lines[lines.index("export PYTHONUNBUFFERED=1") + 1 :]
        assert commands[0] == "python3 /tandem/nccl.py" and len(commands) > 1
        assert "nccl.py" in found and "NCCL_DEBUG=INFO\n" in found["engine.env"]


@pytest.mark.parametrize(("whose", "topology"), [("wheel", "cluster"), ("system", "solo"), ("system", "replicas")])
def test_with_the_wheel_s_or_with_one_gpu_nothing_is_put_in_place(whose: str, topology: str) -> None:
    of = planned(load_recipe("qwen3.6-35b-a3b-nvfp4").model_copy(update={"nccl": whose}), topology=topology)
    assert "nccl" not in files(of, 0)["start.sh"] and "nccl.py" not in files(of, 0)
    assert nccl.expected(of.models[0].recipe, of.knobs) == ()


@pytest.mark.parametrize(("env", "level"), [({}, "VERSION"), ({"NCCL_DEBUG": "WARN"}, "WARN")])
def test_without_rdma_the_recipe_has_the_last_word_on_what_nccl_says(env: dict[str, str], level: str) -> None:
    recipe = load_recipe("qwen3.6-35b-a3b-nvfp4").model_copy(update={"env": env})
    assert variables(planned(recipe, rdma=False), 1)["NCCL_DEBUG"] == level


#: What a recipe asks of NCCL's messages, and what NCCL is told where a start is judged by them.
MESSAGES: list[tuple[dict[str, str], dict[str, str]]] = [
    ({}, {"NCCL_DEBUG": "INFO", "NCCL_DEBUG_SUBSYS": "INIT,NET"}),
    ({"NCCL_DEBUG": "WARN"}, {"NCCL_DEBUG": "INFO", "NCCL_DEBUG_SUBSYS": "INIT,NET"}),
    ({"NCCL_DEBUG": "trace"}, {"NCCL_DEBUG": "trace", "NCCL_DEBUG_SUBSYS": "INIT,NET"}),
    ({"NCCL_DEBUG_SUBSYS": "COLL,NET"}, {"NCCL_DEBUG": "INFO", "NCCL_DEBUG_SUBSYS": "COLL,NET,INIT"}),
    ({"NCCL_DEBUG_SUBSYS": "^NET"}, {"NCCL_DEBUG": "INFO", "NCCL_DEBUG_SUBSYS": "ALL"}),
]


@pytest.mark.parametrize(("env", "told"), MESSAGES)
def test_where_a_start_is_judged_by_it_nccl_says_its_network_whatever_the_recipe_asks(
    env: dict[str, str], told: dict[str, str]
) -> None:
    of = planned(load_recipe("nemotron-3-super-nvfp4-marlin").model_copy(update={"env": env}))
    for index in (0, 1):
        assert told.items() <= variables(of, index).items()


def test_with_rdma_the_first_rail_is_for_meeting_and_without_it_nccl_has_both_for_its_data() -> None:
    recipe = load_recipe("nemotron-3-super-nvfp4-marlin")
    for index in (0, 1):
        found = variables(planned(recipe), index)
        assert (found["NCCL_SOCKET_IFNAME"], found["GLOO_SOCKET_IFNAME"]) == ("=enp1s0f0np0", "enp1s0f0np0")
        assert found["NCCL_IB_HCA"] == "=rocep1s0f0,roceP2p1s0f0"
        found = variables(planned(recipe, rdma=False), index)
        assert found["NCCL_SOCKET_IFNAME"] == "=enp1s0f0np0,enP2p1s0f0np0"
        assert (found["GLOO_SOCKET_IFNAME"], found["TP_SOCKET_IFNAME"]) == ("enp1s0f0np0", "enp1s0f0np0")
        assert not {"NCCL_IB_HCA", "NCCL_DEBUG", "NCCL_DEBUG_SUBSYS"} & found.keys()


def test_a_recipe_that_turns_rdma_off_has_both_rails_for_tcp_and_is_not_judged_by_rdma() -> None:
    recipe = load_recipe("nemotron-3-super-nvfp4-marlin").model_copy(update={"env": {"NCCL_IB_DISABLE": "1"}})
    of = planned(recipe)
    found = variables(of, 1)
    assert found["NCCL_IB_DISABLE"] == "1" and found["NCCL_SOCKET_IFNAME"] == "=enp1s0f0np0,enP2p1s0f0np0"
    assert "NCCL_IB_HCA" not in found and "NCCL_DEBUG" not in found
    assert nccl.expected_of_each(recipe, of.knobs, nodes(2, of.knobs)) == {}


#: Lines as NCCL prints them (2.27 to 2.30; a plugin of NVIDIA's own images), and whether they show RDMA.
LINES = {
    "spark-2:301:301 [0] NCCL INFO Using network IB": True,
    "spark-2:2981:2981 [0] NCCL INFO Using network IBext_v10": True,
    "[2026-11-26 17:20:34] spark-2:301:301 [0] NCCL INFO Using network IB": True,
    "spark-2:301:301 [0] NCCL INFO NET/IB : No device found.": False,
    "spark-2:301:301 [0] NCCL INFO Using network Socket": False,
}


@pytest.mark.parametrize("line", LINES)
def test_what_each_release_says_is_told_apart(line: str) -> None:
    wanted = knobs(topology="cluster", executor="mp")
    found = nccl.expected_of_each(load_recipe(wanted.recipe), wanted, ranked(nodes(2, wanted)))
    assert [log for log, _ in found.values()] == list(found) == ["spark-1", "spark-2"]
    patterns = [nccl.BY_SOCKETS.pattern, found["spark-2"][1]]
    assert (found["spark-2"][1] in journal.matches([line], patterns)) == LINES[line]
    assert (nccl.BY_SOCKETS.pattern in journal.matches([line], patterns)) == line.endswith("Socket")


def test_with_ray_each_rank_is_told_by_its_address_in_the_head_s_log() -> None:
    wanted = knobs(topology="cluster", executor="ray")
    found = nccl.expected_of_each(load_recipe(wanted.recipe), wanted, ranked(nodes(2, wanted)))
    assert {log for log, _ in found.values()} == {"spark-1"}
    worker = "(EngineCore pid=230) \x1b[36m(RayWorkerWrapper pid=2981{})\x1b[0m "
    line = worker + "spark:2981:2981 [0] NCCL INFO Using network {}"
    both = {name: pattern for name, (_, pattern) in found.items()}
    for ip, network, by in (
        ("", "IB", ["spark-1"]),
        (", ip=192.168.177.12", "IBext_v10", ["spark-2"]),
        (", ip=192.168.177.121", "IB", []),
        (", ip=192.168.177.12", "Socket", []),
    ):
        seen = journal.matches([line.format(ip, network)], list(both.values()))
        assert [name for name, pattern in both.items() if pattern in seen] == by
