"""Whose NCCL the ranks of a cluster load, when the recipe wants the system's."""

from __future__ import annotations

import json
from typing import Any

import pytest

from operations.node.unit import journal
from operations.plan.cluster import nccl
from operations.plan.cluster.served_model import ranked
from operations.plan.plan import Plan
from operations.plan.recipes.formats import load_recipe
from operations.plan.recipes.recipe import Recipe
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
        place = commands.index("python3 /tandem/nccl.py")
        # What stands before it, where byte code is kept, loads nothing but Python's own.
        assert all(line.startswith(("# ", "kept=", "[ -z ")) for line in commands[:place]) and commands[place + 1 :]
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
    ({}, {"NCCL_DEBUG": "INFO", "NCCL_DEBUG_SUBSYS": "INIT"}),
    ({"NCCL_DEBUG": "WARN"}, {"NCCL_DEBUG": "INFO", "NCCL_DEBUG_SUBSYS": "INIT"}),
    ({"NCCL_DEBUG": "trace"}, {"NCCL_DEBUG": "trace", "NCCL_DEBUG_SUBSYS": "INIT"}),
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


@pytest.mark.parametrize(
    ("env", "topology", "is_told"),
    [
        ({"NCCL_DEBUG": "WARN"}, "cluster", True),
        ({"NCCL_DEBUG": "WARN"}, "solo", False),
        ({"NCCL_DEBUG": "WARN", "NCCL_IB_DISABLE": "1"}, "cluster", False),
        ({"NCCL_DEBUG": "trace"}, "cluster", False),
        ({}, "cluster", False),
    ],
)
def test_who_asks_nccl_for_less_is_told_what_it_says(env: dict[str, str], topology: str, is_told: bool) -> None:
    recipe = load_recipe("nemotron-3-super-nvfp4-marlin").model_copy(update={"env": env})
    assert bool(list(nccl.remarks(recipe, knobs(topology=topology)))) is is_told


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


def test_ranks_without_a_gpu_do_not_speak_through_nccl_and_are_not_judged_by_it() -> None:
    recipe = load_recipe("lab-tiny-llama")
    of = planned(recipe, topology="cluster")
    assert "NCCL_DEBUG" not in variables(of, 0) and "NCCL_IB_HCA" not in variables(of, 0)
    assert nccl.expected_of_each(recipe, of.knobs, nodes(2, of.knobs)) == {}


#: What NCCL 2.28.9 prints at the start of a rank whose devices are not there, on a GPU, as the plan tells it to.
NO_DEVICES = """\
spark-2:695:695 [0] NCCL INFO NCCL version 2.28.9+cuda13.0
spark-2:695:695 [0] NCCL INFO NET/Plugin: Could not find: libnccl-net.so
spark-2:695:695 [0] NCCL INFO NET/IB : No device found.
spark-2:695:695 [0] NCCL INFO NET/IB : Using [RO]; OOB enp1s0f0np0:192.168.177.12<0>
spark-2:695:695 [0] NCCL INFO Failed to initialize NET plugin IB
spark-2:695:695 [0] NCCL INFO NET/Socket : Using [0]enp1s0f0np0:192.168.177.12<0>
spark-2:695:695 [0] NCCL INFO Initialized NET plugin Socket
spark-2:695:695 [0] NCCL INFO Assigned NET plugin Socket to comm
spark-2:695:695 [0] NCCL INFO Using network Socket
""".splitlines()
#: What a start with devices names: NCCL's own way, and that of the plugin in NVIDIA's own images.
NETWORKS = ("IB", "IBext_v10")


def patterns_of(name: str) -> list[str]:
    """What the log of a rank must not say, and what it must."""
    wanted = knobs(topology="cluster", executor="mp")
    found = nccl.expected_of_each(load_recipe(wanted.recipe), wanted, ranked(nodes(2, wanted)))
    log, pattern = found[name]
    assert log == name and list(found) == ["spark-1", "spark-2"]
    return [nccl.BY_SOCKETS.pattern, pattern]


def test_a_start_without_the_devices_says_sockets_and_never_rdma() -> None:
    forbidden, expected = patterns_of("spark-2")
    assert journal.matches(NO_DEVICES, [forbidden, expected]) == {forbidden: NO_DEVICES[-1]}


@pytest.mark.parametrize("network", NETWORKS)
def test_a_start_with_them_says_rdma_and_never_sockets(network: str) -> None:
    forbidden, expected = patterns_of("spark-2")
    line = f"(Worker pid=301) spark-2:695:695 [0] NCCL INFO Using network {network}"
    assert journal.matches([*NO_DEVICES[:2], line], [forbidden, expected]) == {expected: line}


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


@pytest.mark.parametrize("executor", ["ray", "mp"])
def test_with_ray_no_worker_gets_the_head_s_interfaces(executor: str) -> None:
    """vLLM's Ray executor copies NCCL_* and UCX_* from the head, but for what this file names."""
    of = planned(load_recipe("nemotron-3-super-nvfp4-marlin"), executor=executor)
    for index in (0, 1):
        found, own = files(of, index), variables(of, index)
        copied = {name for name in own if name.startswith(("NCCL_", "UCX_"))}
        mount = ":/root/.config/vllm/ray_non_carry_over_env_vars.json:ro"
        assert (mount in found["run.sh"]) == ("ray_own.json" in found) == (executor == "ray")
        if executor == "ray":
            kept = set(json.loads(found["ray_own.json"]))
            # What NCCL says is the same for all.
            assert copied - kept == {"NCCL_DEBUG", "NCCL_DEBUG_SUBSYS"}
