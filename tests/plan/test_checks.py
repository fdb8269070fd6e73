"""What a survey says against a deploy: each finding with its remedy, all at once."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from operations.node.network import netplan
from operations.plan.checks import GIB, check_survey, still_to_come
from operations.plan.cluster.fabric_checks import is_for
from operations.plan.cluster.served_model import ServedModel
from operations.plan.config.knobs import Knobs
from operations.plan.plan import served_models
from operations.plan.recipes.formats import load_recipe
from operations.plan.wanted import wanted as read
from tests.node.test_netplan import ANY, KEYED, NAMED, PASSED
from tests.plan.samples import knob_data, knobs, make_plan, nodes, one, plan, survey


def models(wanted: Knobs, count: int) -> tuple[ServedModel, ...]:
    """The one model that the knobs declare, on so many nodes."""
    on = nodes(count, wanted)
    return served_models(one(load_recipe(wanted.recipe), wanted), on, [node.name for node in on], {})


def findings(found: Any, index: int = 0, count: int = 2, **changes: Any) -> str:
    wanted = knobs(**changes)
    said = check_survey(nodes(count, wanted)[index], found, survey(), models(wanted, count), wanted, count)
    return "\n".join(f"{finding.problem} -> {finding.remedy}" for finding in said)


def links(**changes: Any) -> Any:
    found = survey()
    for name, change in changes.items():
        found["state"]["links"][name] |= change
    return found


def listener(port: int, *, ours: bool = False) -> Any:
    return survey(ports=[{"port": port, "address": "0.0.0.0", "process": "nginx", "pid": "77", "ours": ours}])


def test_who_falls_back_to_one_node_needs_the_memory_and_the_ports_of_one() -> None:
    small = survey(memory={"total_mib": 64_000, "available_mib": 60_000})
    said = "has 62.5 GiB of memory; serving alone the recipe needs 100 -> set fallback to off"
    assert said in findings(small, index=1, fallback="solo")
    assert "serving alone" not in findings(small, index=1)
    for port in (8001, 26000):
        assert f"port {port} is held by nginx" in findings(listener(port), index=1, fallback="solo")
        assert findings(listener(port), index=1) == ""


def test_a_healthy_node_has_no_findings() -> None:
    assert findings(survey()) == ""


@pytest.mark.parametrize(
    ("found", "said"),
    [
        ({"python": False}, "has no python3"),
        ({"sudo": False}, "sudo wants a password"),
        (survey(machine="x86_64"), "is x86_64, the head is aarch64"),
        (survey(kernel="7.0.0-1019-nvidia"), "runs the kernel 7.0.0-1019-nvidia"),
        (survey(docker={"version": "", "runtimes": []}), "Docker does not answer"),
        (survey(firewall={"nft": False, "groups": False}), "everybody's -> sudo apt install nftables"),
        (survey(nvidia=""), "no NVIDIA driver is loaded"),
        (survey(docker={"version": "28", "runtimes": ["runc"]}), "Docker has no NVIDIA runtime"),
        (survey(memory={"total_mib": 64_000, "available_mib": 60_000}), "has 62.5 GiB of memory, the recipe needs 100"),
        (survey(memory={"total_mib": 122_000, "available_mib": 60_000}), "58.6 GiB of memory available"),
        (listener(8000), "port 8000 is held by nginx (pid 77) -> end it, or change `proxy_port`"),
        (listener(26000), "port 26000 is held by nginx"),
        (links(enP2p1s0f0np0={"carrier": False}), "the rail enP2p1s0f0np0 has no carrier"),
        (
            links(enP2p1s0f0np0={"up": False, "carrier": False, "addresses": ["192.168.178.11/24"]}),
            "the rail enP2p1s0f0np0 is down -> on spark-1: sudo ip link set enP2p1s0f0np0 up",
        ),
        (survey(source=["/models/x/config.json is missing"]), "config.json is missing"),
        (survey(archives={"tandem/proxy:1": "/srv/proxy.tar is no image archive"}), "is no image archive"),
        (survey(token="/root/token has mode 644"), "has mode 644"),
        (
            survey(netplan=[{"file": "/etc/netplan/40-cx7.yaml", "device": "enp1s0f0np0", "gives": "an address"}]),
            "40-cx7.yaml gives `enp1s0f0np0` an address too",
        ),
        (survey(netplan=[{"file": "/etc/netplan/9.yaml", "unread": "it is torn"}]), "9.yaml can't be looked into"),
    ],
    ids=lambda value: value[:40] if isinstance(value, str) else "",
)
def test_a_finding_is_named_with_its_remedy(found: Any, said: str) -> None:
    assert said in findings(found, model_from="/models")


def test_model_and_image_on_one_disk_are_added_up() -> None:
    found = survey()
    for disk in found["disks"].values():
        disk["free"] = 90 << 30
    assert "has 90.0 GiB free, 105.1 GiB are needed" in findings(found)
    found["disks"]["docker"]["device"] = 2
    assert findings(found) == ""


#: One on the head, and two on another node that have their files and their image in common.
SPREAD: dict[str, dict[str, Any]] = {
    "here": {"recipe": "lab-tiny-llama", "topology": "solo", "nodes": ["spark-1"]},
    "there": {"recipe": "qwen3.6-35b-a3b-nvfp4", "topology": "solo", "nodes": ["spark-2"], "served_name": "one"},
    "too": {"recipe": "qwen3.6-35b-a3b-nvfp4", "topology": "solo", "nodes": ["spark-2"], "served_name": "two"},
}


def room(index: int) -> list[str]:
    """What is said of a node whose disks, one for models and one for images, have a GiB free each."""
    of = read(knob_data(models=SPREAD))
    on, found = nodes(2, of.knobs), survey()
    for number, disk in enumerate(("store", "docker"), 2):
        found["disks"][disk] |= {"device": number, "free": 1 << 30}
    spread = served_models(of, on, [node.name for node in on], {})
    said = check_survey(on[index], found, survey(), spread, of.knobs, 2)
    return [each.problem.partition("free, ")[2] for each in said if "GiB free" in each.problem]


def test_the_head_stores_every_model_each_file_set_and_image_once() -> None:
    assert room(0) == ["26.01 GiB are needed", "34 GiB are needed"]
    assert room(1) == ["26 GiB are needed", "30 GiB are needed"]


@pytest.mark.parametrize("disk", ["docker", "files"])
def test_a_full_disk_is_named(disk: str) -> None:
    found = survey()
    found["disks"][disk] |= {"device": 2, "free": 1 << 20}
    assert f"{found['disks'][disk]['path']} has 0.0 GiB free" in findings(found)


def test_a_disk_that_takes_no_writes_is_said_once_and_is_no_matter_of_owners() -> None:
    found = survey(unwritable="/home/spark/.cache/huggingface/hub")
    assert "is not the login's" in findings(found)
    for disk in found["disks"].values():
        disk["read_only"] = True
    said = findings(found)
    assert said.count("is read-only") == 1 and "is not the login's" not in said


def test_what_is_there_needs_no_room() -> None:
    found = survey()
    found["state"]["models"][load_recipe(knobs().recipe).model.key] = {"present": True, "problems": []}
    found["disks"]["store"]["free"] = found["disks"]["docker"]["free"] = 30 << 30
    assert findings(found) == ""


def test_of_what_is_not_whole_the_rest_needs_room() -> None:
    found = survey()
    model = load_recipe(knobs().recipe).model
    files = {"a.safetensors": {"size": 20 << 30, "blob": ""}, "b.safetensors": {"size": 6 << 30, "blob": ""}}
    told = {"present": True, "problems": ["/hub/x/b.safetensors has 9 bytes, its header says 10"], "files": files}
    found["state"]["models"][model.key] = told
    disk = load_recipe(knobs().recipe).needs.model_disk_gib
    found["disks"]["store"] |= {"device": 7, "free": int((disk - 20.1) * GIB)}
    assert "GiB free" in findings(found)
    found["disks"]["store"]["free"] = int((disk - 19.9) * GIB)
    assert "GiB free" not in findings(found)


def test_another_quant_of_a_revision_that_is_there_needs_its_room() -> None:
    model = load_recipe("lab-tiny-gguf").model
    other = model.model_copy(update={"files": ("*Q8_0*.gguf",)})
    assert other.key != model.key and other.place["only"] == ["*Q8_0*.gguf"]
    whole = {"present": True, "problems": [], "files": {}}
    of = plan(recipe="lab-tiny-gguf", topology="solo").models[0]
    recipe = of.recipe.model_copy(
        update={"model": other, "needs": of.recipe.needs.model_copy(update={"model_disk_gib": 9})}
    )
    states: Any = {model.key: whole}
    assert list(still_to_come([replace(of, recipe=recipe)], states)) == [9]
    assert list(still_to_come([of], states)) == [0]


def test_a_running_engine_gives_its_memory_back() -> None:
    found = survey(memory={"total_mib": 122_000, "available_mib": 9_000})
    found["state"]["services"]["units"]["tandem-engine"] = {"ActiveState": "active"}
    assert findings(found) == ""


def test_our_own_listeners_are_no_finding() -> None:
    assert findings(listener(8000, ours=True)) == ""


def test_every_node_that_serves_needs_the_proxys_port() -> None:
    assert "port 8000 is held by nginx" in findings(listener(8000), index=1)
    assert findings(listener(8000), index=1, topology="solo") == ""


def test_a_first_deploy_sets_up_links_that_are_down() -> None:
    """What is down shows no carrier, cable or not."""
    down = {"up": False, "carrier": False}
    assert findings(links(enp1s0f0np0=down, enP2p1s0f0np0=down)) == ""


def test_a_cable_that_was_moved_is_told_with_the_ports_that_have_one() -> None:
    found = links(enp1s0f0np0={"carrier": False}, enP2p1s0f0np0={"carrier": False})
    assert "with carrier: none" in findings(found)
    here = survey()["state"]["links"]["enp1s0f0np0"]
    found["state"]["links"] |= {"enp1s0f1np1": here, "enP2p1s0f1np1": here}
    assert "with carrier: enp1s0f1np1, enP2p1s0f1np1" in findings(found)


RAIL: Any = {"mac": "30:c5:99:00:00:01", "driver": "mlx5_core"}


@pytest.mark.parametrize(
    ("entry", "fits"),
    [
        ({"device": "enp1s0f0np0", "match": None}, True),
        ({"device": "enp1s0f0np0"}, True),
        ({"device": "eth0"}, False),
        ({"device": "eth0", "match": {}}, False),
        ({"device": "enp1s0f0np0", "match": {}}, True),
        # With a `match` the entry's name says nothing.
        ({"device": "enp1s0f0np0", "match": {"name": "eth*"}}, False),
        ({"device": "all", "match": {"name": "en*"}}, True),
        ({"device": "all", "match": {"name": "wl*"}}, False),
        ({"device": "all", "match": {"macaddress": "30:C5:99:00:00:01"}}, True),
        ({"device": "all", "match": {"macaddress": "30:c5:99:00:00:02"}}, False),
        ({"device": "all", "match": {"driver": "mlx5*"}}, True),
        ({"device": "all", "match": {"driver": ["r8169", "mlx5_core"]}}, True),
        ({"device": "all", "match": {"driver": "r8169"}}, False),
        ({"device": "all", "match": {"name": "en*", "driver": "r8169"}}, False),
    ],
    ids=str,
)
def test_a_netplan_entry_is_for_what_its_match_selects(entry: Any, fits: bool) -> None:
    assert is_for(entry, "enp1s0f0np0", RAIL) == fits


@pytest.mark.parametrize(
    ("file", "rails"),
    [
        (KEYED, []),
        (KEYED.replace("ens32", "enp1s0f0np0"), ["enp1s0f0np0"]),
        (NAMED, []),
        (NAMED.replace("enP7s7", "enP2p1s0f0np0"), ["enP2p1s0f0np0"]),
        (PASSED, []),
        (PASSED.replace("enP7s7", "enP2p1s0f0np0"), ["enP2p1s0f0np0"]),
        (ANY, []),
    ],
)
def test_what_network_manager_saves_for_other_interfaces_stands_in_nobody_s_way(
    tmp_path: Path, file: str, rails: list[str]
) -> None:
    (tmp_path / "90-NM-9f2a71c3-5bb0-4d7e-8c1b-0d7f1e6a2b44.yaml").write_text(file)
    told = findings(survey(netplan=netplan.entries(tmp_path)))
    assert re.findall(r"yaml gives `(\w+)` an address too", told) == rails


@pytest.mark.parametrize(
    "found",
    [
        survey(machine="x86_64"),
        survey(kernel="7.0.0-1019-nvidia"),
        survey(docker={"version": "", "runtimes": []}),
        survey(nvidia=""),
        survey(memory={"total_mib": 1000, "available_mib": 10}),
        listener(8001),
        links(enp1s0f0np0={"carrier": False}),
        survey(state=survey()["state"] | {"links": {}}),
        survey(
            disks={
                name: {"path": "/", "free": 0, "device": 1, "read_only": False} for name in ("store", "docker", "files")
            }
        ),
        survey(archives={"tandem/engine:1": "/srv/engine.tar is no image archive"}),
        survey(netplan=[{"file": "/etc/netplan/9.yaml", "unread": "it is torn"}]),
    ],
)
def test_in_solo_an_idle_node_is_checked_for_nothing(found: Any) -> None:
    assert findings(found, index=1, topology="solo") == ""
    assert findings(found, index=1, topology="replicas")


@pytest.mark.parametrize("found", [{"sudo": False}, {"python": False}], ids=str)
def test_what_an_older_plan_has_left_on_an_idle_node_can_be_taken_away(found: Any) -> None:
    assert findings(found, index=1, topology="solo")


def test_solo_needs_no_fabric() -> None:
    assert findings(links(enp1s0f0np0={"carrier": False}), topology="solo") == ""
    assert findings(survey(state=survey()["state"] | {"links": {}}), topology="solo") == ""
    wanted = knobs(topology="solo")
    head = replace(nodes(2, wanted)[0], rails=("enp1s0f0np0",))
    assert check_survey(head, survey(), survey(), models(wanted, 2), wanted, 2) == []


@pytest.mark.parametrize(
    ("topology", "executor", "index", "count", "ports"),
    [
        ("solo", "ray", 0, 2, {8000, 8001}),
        ("replicas", "ray", 0, 2, {8000, 8001, 26031}),
        ("replicas", "ray", 1, 2, {8000, 8001}),
        ("replicas", "ray", 2, 3, {8000, 8001, 26032}),
        ("cluster", "mp", 0, 3, {8000, 8001, 26000, 26001, 26031, 26032}),
        ("cluster", "mp", 1, 2, {8000}),
        ("cluster", "ray", 0, 2, {8000, 8001, 26000, *range(26002, 26012), 26031}),
        ("cluster", "ray", 1, 2, {8000, *range(26003, 26009)}),
    ],
)
def test_every_port_that_is_listened_on_is_looked_at_and_no_other(
    topology: str, executor: str, index: int, count: int, ports: set[int]
) -> None:
    held = [each for port in (8000, 8001, *range(26000, 26040)) for each in listener(port)["ports"]]
    said = findings(survey(ports=held), index, count, topology=topology, executor=executor)
    assert {int(port) for port in re.findall(r"port (\d+) is held", said)} == ports


def test_what_ollama_holds_is_counted_as_free_since_a_start_unloads_it() -> None:
    held = {"total_mib": 122_000, "available_mib": 60_000, "ollama_mib": 50_000}
    assert findings(survey(memory=held)) == ""
    assert "MiB" not in findings(survey(memory={**held, "ollama_mib": 10_000}))
    assert "68.4 GiB of memory available" in findings(survey(memory={**held, "ollama_mib": 10_000}))


def of_cluster(rdma: tuple[bool, bool], links: Any, env: dict[str, str] | None = None) -> list[str]:
    """What stands in the way on the second of two nodes; `rdma`: whether each has devices on its rails."""
    wanted = knobs(topology="cluster")
    both = [nodes(2, wanted, rdma=has)[place] for place, has in enumerate(rdma)]
    recipe = load_recipe(wanted.recipe)
    recipe = recipe.model_copy(update={"env": recipe.env | (env or {})})
    models = make_plan(recipe, wanted, both).models
    return [str(each) for each in check_survey(both[1], links, links, models, wanted, 2)]


#: Devices on both rails, on one, on none; the rails' driver; and what is said of the second node.
DEVICES: list[tuple[dict[str, Any], dict[str, Any], tuple[bool, bool], str]] = [
    ({}, {}, (True, True), ""),
    ({}, {"rdma": None}, (True, True), "no RDMA device is on `enP2p1s0f0np0`, spark-1 has them: NCCL would speak TCP"),
    ({"rdma": None}, {"rdma": None}, (False, False), "no RDMA device is on `enp1s0f0np0` and `enP2p1s0f0np0`: NCCL"),
    ({"rdma": None, "driver": ""}, {"rdma": None, "driver": ""}, (False, False), ""),
    ({"rdma": None, "driver": ""}, {"rdma": None, "driver": ""}, (True, False), "spark-1 has them"),
]


@pytest.mark.parametrize(("first", "second", "rdma", "said"), DEVICES)
def test_a_rail_without_its_rdma_device_is_found_before_anything_is_fetched(
    first: dict[str, Any], second: dict[str, Any], rdma: tuple[bool, bool], said: str
) -> None:
    found = [each for each in of_cluster(rdma, links(enp1s0f0np0=first, enP2p1s0f0np0=second)) if "RDMA" in each]
    assert len(found) == bool(said)
    assert all(said in each and "sudo modprobe mlx5_ib" in each and "NCCL_IB_DISABLE" in each for each in found)
    turned_off = of_cluster(rdma, links(enp1s0f0np0=first, enP2p1s0f0np0=second), {"NCCL_IB_DISABLE": "1"})
    assert not [each for each in turned_off if "RDMA" in each]


def test_only_a_cluster_s_rails_need_rdma() -> None:
    without = links(enp1s0f0np0={"rdma": None}, enP2p1s0f0np0={"rdma": None})
    assert findings(without, topology="replicas") == ""
