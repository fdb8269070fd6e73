"""The rules of the firewall, as words, where they depend on the plan; what they do: tests/node/test_firewall.py."""

from __future__ import annotations

import re
from dataclasses import replace
from typing import Any

import pytest

from operations.paths import ENGINE, FIREWALL, SLICE
from operations.plan.cluster.nodes import engine_group
from operations.plan.plan import Plan
from operations.plan.recipes.formats import load_recipe
from tests.plan.samples import engine_of, knobs, make_plan, nodes, plan

RAY: dict[str, Any] = {"topology": "cluster", "executor": "ray", "recipe": "nemotron-3-super-nvfp4-marlin"}


def text(of: Plan, index: int, name: str, unit: str = FIREWALL) -> str:
    service = of.nodes[index].services[unit]
    assert service
    return next(file.content for file in service.files if file.path.endswith(name))


def elements(rules: str, name: str) -> str:
    found = re.search(rf"set {name} \{{.*?elements = \{{ (.*?) \}}", rules, re.DOTALL)
    return found.group(1) if found else ""


def chain(rules: str, name: str) -> list[str]:
    """The rules of a chain, without words about them."""
    lines = rules.partition(f"chain {name} {{")[2].partition("\t}")[0].splitlines()
    return [line.strip() for line in lines if line.strip() and "#" not in line]


def with_nodes(change: dict[str, Any], **wanted: Any) -> Plan:
    chosen = knobs(**wanted)
    return make_plan(load_recipe(chosen.recipe), chosen, [replace(node, **change) for node in nodes(2, chosen)])


def test_the_whole_chains_of_a_cluster_s_head() -> None:
    rules = text(plan(topology="cluster", executor="mp"), 0, "tandem.nft")
    fabric = "ip daddr { 192.168.177.0/24, 192.168.178.0/24 }"
    assert chain(rules, "input") == [
        "type filter hook input priority filter - 10; policy accept;",
        "iifname @inside accept",
        "tcp dport @ssh accept",
        f"{fabric} counter name fabric drop",
        "ct direction reply accept",
        "meta l4proto { tcp, udp } th dport @given counter name given drop",
        'socket cgroupv2 level 1 "tandem.slice" counter name engine drop',
    ]
    assert chain(rules, "forward") == [
        "type filter hook forward priority filter - 10; policy accept;",
        "iifname @inside accept",
        "tcp dport @ssh accept",
        f"{fabric} counter name routed drop",
    ]
    # One transaction; nothing of anybody else's is named.
    assert re.findall(r"^\w.*", rules, re.MULTILINE) == [
        "add table inet tandem",
        "delete table inet tandem",
        "table inet tandem {",
    ]


@pytest.mark.parametrize(
    ("changes", "index", "given"),
    [
        ({"topology": "solo"}, 0, "8001"),
        ({"topology": "replicas"}, 0, "8001, 26031"),
        ({"topology": "replicas"}, 1, "8001"),
        ({"topology": "cluster", "executor": "mp"}, 0, "8001, 26000-26001, 26031"),
        ({"topology": "cluster", "executor": "mp"}, 1, ""),
        (RAY, 0, "8001, 26000, 26002-26011, 26031, 26100-26299"),
        (RAY, 1, "26003-26008, 26100-26299"),
        (RAY | {"cluster_ports": 40000, "engine_port": 9001}, 1, "40003-40008, 40100-40299"),
    ],
)
def test_the_ports_that_a_plan_gives_out_are_closed_but_the_proxy_s(
    changes: dict[str, Any], index: int, given: str
) -> None:
    rules = text(plan(**changes, proxy_bind="all"), index, "tandem.nft")
    assert elements(rules, "given") == given
    assert "8000" not in rules


@pytest.mark.parametrize("topology", ["cluster", "replicas"])
def test_the_rails_are_inside(topology: str) -> None:
    rules = text(plan(topology=topology), 1, "tandem.nft")
    assert elements(rules, "inside") == '"lo", "enp1s0f0np0", "enP2p1s0f0np0"'


def test_solo_has_firewall_without_rails_and_its_idle_node_none() -> None:
    of = plan(topology="solo")
    rules = text(of, 0, "tandem.nft")
    assert elements(rules, "inside") == '"lo"'
    assert "192.168" not in rules and "chain forward" not in rules
    assert chain(rules, "input")[-1] == 'socket cgroupv2 level 1 "tandem.slice" counter name engine drop'
    assert FIREWALL not in of.nodes[1].services


def test_the_port_that_ssh_came_in_on_is_let_in_before_anything_is_dropped() -> None:
    rules = text(with_nodes({"ssh_port": 2222}, topology="cluster"), 0, "tandem.nft")
    assert elements(rules, "ssh") == "22, 2222"
    for name in ("input", "forward"):
        lines = chain(rules, name)
        assert lines.index("tcp dport @ssh accept") < min(i for i, line in enumerate(lines) if "drop" in line)


def test_an_engine_is_in_the_group_that_the_firewall_know() -> None:
    assert f"--cgroup-parent {SLICE} " in text(plan(**RAY), 1, "run.sh", ENGINE)
    of = with_nodes({"engine_group": "/tandem.slice"}, **RAY)
    assert "--cgroup-parent /tandem.slice " in text(of, 1, "run.sh", ENGINE)
    # nft and systemd know it by one name, whatever Docker calls it.
    assert '"tandem.slice"' in text(of, 1, "tandem.nft")
    assert "Requires=tandem.slice\n" in text(of, 1, ".service")


def test_where_groups_can_t_be_told_the_ports_are_closed_and_nothing_names_a_group() -> None:
    of = with_nodes({"engine_group": ""}, **RAY)
    assert "cgroup" not in text(of, 0, "run.sh", ENGINE)
    assert "slice" not in text(of, 0, "tandem.nft") + text(of, 0, ".service")
    assert "@given counter name given drop" in text(of, 0, "tandem.nft")


@pytest.mark.parametrize(
    ("said", "group"),
    [
        ({"nft": True, "groups": True, "driver": "systemd"}, "tandem.slice"),
        ({"nft": True, "groups": True, "driver": "cgroupfs"}, "/tandem.slice"),
        ({"nft": True, "groups": False, "driver": "systemd"}, ""),
        ({}, ""),
    ],
)
def test_docker_calls_the_group_by_its_driver(said: dict[str, Any], group: str) -> None:
    assert engine_group(said) == group


def test_the_engine_comes_after_the_firewall() -> None:
    of = plan(topology="cluster")
    engine, firewall = text(of, 0, ".service", ENGINE), text(of, 0, ".service")
    assert re.search(r"^After=.*tandem-firewall.service", engine, re.MULTILINE)
    assert re.search(r"^Wants=.*tandem-firewall.service", engine, re.MULTILINE)
    assert re.search(r"^Before=network-pre.target docker.service", firewall, re.MULTILINE)
    # What flushes all tables when it is started anew or reloaded takes the firewall along; it comes back behind it.
    for line in ("After=nftables.service ", "PartOf=nftables.service\n", "ReloadPropagatedFrom=nftables.service\n"):
        assert f"\n{line}" in firewall
    ready = text(of, 0, "ready.sh", ENGINE)
    assert ready.index("firewall.sh") < ready.index("wait_while image_is_missing")


def test_another_spec_is_another_table_and_does_not_restart_the_engine() -> None:
    before, after = plan(topology="replicas"), with_nodes({"ssh_port": 2222}, topology="replicas")
    assert before.head.services[FIREWALL].spec != after.head.services[FIREWALL].spec
    assert f'comment "{after.head.services[FIREWALL].spec}"' in text(after, 0, "tandem.nft")
    assert engine_of(before.head).spec == engine_of(after.head).spec
