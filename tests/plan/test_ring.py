"""Three nodes with a cable between each two: found by what they hear, addressed so that each reaches the others."""

from __future__ import annotations

import json
from collections.abc import Mapping
from ipaddress import IPv4Interface, IPv4Network
from typing import Any

import pytest
import yaml

from operations.paths import CANARY, FIREWALL, PAGE
from operations.plan.checks import check_survey
from operations.plan.cluster import ring
from operations.plan.cluster.environment import rank_environment
from operations.plan.cluster.fabric import fabric_files, rails_of
from operations.plan.cluster.nodes import Node
from operations.plan.doctor import ways
from operations.plan.plan import Plan
from operations.plan.services.monitoring import targets
from operations.wire.doctor import HeardFrame
from operations.wire.fabric import Links
from tests.plan.samples import engine_of, knobs, nodes, plan, ring_plan, survey
from tests.plan.samples import ring as ring_of

NAMES = ("spark-1", "spark-2", "spark-3")
PORTS = ("f0np0", "f1np1")
DEVICES = tuple(f"{half}s0{port}" for port in PORTS for half in ("enp1", "enP2p1"))
RAILS = knobs().rail_subnets
RING: dict[str, Any] = {"pipeline_parallel": 3, "executor": "mp"}


def heard(*cables: tuple[tuple[int, int], tuple[int, int]]) -> dict[str, list[HeardFrame]]:
    """What is heard over cables between (node, port) and (node, port): on either half what either half has said."""
    found: dict[str, list[HeardFrame]] = {name: [] for name in NAMES}
    for one, other in cables:
        for (at, port), (of, far) in ((one, other), (other, one)):
            here, there = ([each for each in DEVICES if each.endswith(PORTS[number])] for number in (port, far))
            found[NAMES[at]] += [{"device": a, "node": NAMES[of], "from": b} for a in here for b in there]
    return found


#: As NVIDIA has it: port 0 to the next one's port 1. The lab has it the other way round.
FORWARD = tuple(((index, 0), ((index + 1) % 3, 1)) for index in range(3))
BACKWARD = tuple(((index, 1), ((index + 1) % 3, 0)) for index in range(3))
EVERY = dict.fromkeys(NAMES, DEVICES)


def test_a_ring_is_found_whichever_port_leads_where() -> None:
    assert ring.found(heard(*FORWARD), EVERY) == dict.fromkeys(NAMES, DEVICES)
    assert ring.found(heard(*BACKWARD), EVERY) == dict.fromkeys(NAMES, (*DEVICES[2:], *DEVICES[:2]))
    crossed = ring.found(heard(((0, 0), (1, 0)), ((1, 1), (2, 0)), ((2, 1), (0, 1))), EVERY)
    assert crossed["spark-1"] == DEVICES and crossed["spark-2"] == (*DEVICES[2:], *DEVICES[:2])


@pytest.mark.parametrize(
    "cables",
    [
        # A switch: everybody hears everybody on one port, or on both.
        (((0, 0), (1, 0)), ((1, 0), (2, 0)), ((2, 0), (0, 0))),
        tuple(((one, port), (other, port)) for port in (0, 1) for one, other in ((0, 1), (1, 2), (2, 0))),
        (((0, 0), (1, 1)),),
        (),
    ],
)
def test_what_is_no_ring_is_none(cables: tuple[Any, ...]) -> None:
    assert ring.found(heard(*cables), EVERY) == {}
    assert ring.gap(heard(*cables), NAMES, NAMES) == []


def test_a_ring_with_a_cable_missing_is_refused() -> None:
    (finding,) = ring.gap(heard(*FORWARD[:2]), NAMES, NAMES)
    assert finding.problem == (
        "no cable joins spark-3 and spark-1, and spark-2 has a cable to each: one of a ring is missing"
    )
    assert finding.remedy == "join a port of each with a cable, or put all three on one switch"
    assert ring.found(heard(*FORWARD[:2]), EVERY) == {} and ring.gap(heard(*FORWARD), NAMES, NAMES) == []


def test_a_cable_to_a_node_that_does_not_serve_need_not_be_there() -> None:
    # The cables of spark-1 to spark-2 and of spark-2 to spark-3: those of the first two can be named.
    (finding,) = ring.gap(heard(*FORWARD[:2]), NAMES, NAMES[:2])
    assert finding.remedy.endswith("; or name the two rails of spark-2 in the inventory (`fabric_interfaces`)")
    (needed,) = ring.gap(heard(*FORWARD[:2]), NAMES, (NAMES[0], NAMES[2]))
    assert "fabric_interfaces" not in needed.remedy


def links(node: Node | None, carrier: tuple[str, ...] = PORTS) -> Links:
    """Of a node as the deploy has left it; None: as it is delivered."""
    addresses = {rail.device: [rail.address] for rail in rails_of(knobs(), node)} if node else {}
    return {
        device: {
            "carrier": device.endswith(carrier),
            "up": True,
            "mtu": 9000,
            "addresses": addresses.get(device, []),
            "routes": [],
            "mac": "",
            "driver": "mlx5_core",
            "rdma": None,
            "arp": {},
        }
        for device in DEVICES
    }


def test_what_has_the_addresses_of_a_ring_is_not_asked_again() -> None:
    here = [links(node) for node in ring_of(knobs())]
    assert ring.known(here, range(3), RAILS) == [DEVICES] * 3
    # One node does not answer, or a cable is out at both ends.
    assert ring.known(here[1:], [1, 2], RAILS) == [DEVICES] * 2
    out = [links(node, PORTS[which:]) for node, which in zip(ring_of(knobs()), (1, 0, 0), strict=True)]
    assert ring.known(out, range(3), RAILS) == [DEVICES] * 3
    assert not any(ring.on_a_switch(each) for each in (here, here[1:], out))


def test_what_was_a_ring_and_is_on_a_switch_is_looked_at() -> None:
    here = [links(node, PORTS[:1]) for node in ring_of(knobs())]
    assert ring.on_a_switch(here)
    assert ring.may_be(here, here, RAILS)


def test_nodes_on_one_port_are_not_asked_each_time() -> None:
    flat = [links(node, PORTS[:1]) for node in nodes(3, knobs())]
    assert ring.known(flat, range(3), RAILS) == [] and not ring.may_be(flat, flat, RAILS)
    # One that does not serve gets no addresses.
    assert not ring.may_be([*flat[:2], links(None)], flat[:2], RAILS)
    # A second cable came in everywhere.
    both, new = [links(node) for node in nodes(3, knobs())], [links(None)] * 3
    assert ring.may_be(both, both, RAILS)
    assert ring.may_be(new, new, RAILS)
    assert not ring.may_be(new[:2], new[:2], RAILS)
    one_port = [dict(list(links(None).items())[:2])] * 3
    assert not ring.may_be(one_port, one_port, RAILS)


def test_each_cable_has_subnets_of_its_own() -> None:
    one, two, three = ring_of(knobs())
    assert [len(set(one.subnets) & set(other.subnets)) for other in (two, three)] == [2, 2]
    assert len({subnet for node in (one, two, three) for subnet in node.subnets}) == 6
    assert all(any(subnet.subnet_of(rail) for rail in RAILS) for subnet in one.subnets)
    assert one.toward(two) == [("enp1s0f0np0", "192.168.177.12"), ("enP2p1s0f0np0", "192.168.178.12")]
    assert one.toward(three) == [("enp1s0f1np1", "192.168.177.141"), ("enP2p1s0f1np1", "192.168.178.141")]
    assert nodes(2, knobs())[0].toward(nodes(2, knobs())[1]) == [
        ("enp1s0f0np0", "192.168.177.12"),
        ("enP2p1s0f0np0", "192.168.178.12"),
    ]


def test_every_address_of_a_node_is_reached_from_the_others_over_the_cable_between() -> None:
    everyone = ring_of(knobs())
    for mine in everyone:
        for other in everyone:
            direct = dict(mine.toward(other))
            for address in other.rail_addresses if other is not mine else ():
                device = leads_to(mine, address)
                assert device in direct, (mine.name, address)


def leads_to(node: Node, address: str) -> str:
    """The device that the kernel would take: a route to one address goes before a subnet."""
    entries = yaml.safe_load(fabric_files(knobs(), node)[0].content)["network"]["ethernets"]
    for device, entry in entries.items():
        if f"{address}/32" in [route["to"] for route in entry["routes"]]:
            (gateway,) = [route["via"] for route in entry["routes"]]
            assert any(IPv4Interface(each).network.supernet_of(IPv4Network(gateway)) for each in entry["addresses"])
            return str(device)
    found = [
        device
        for device, entry in entries.items()
        if any(IPv4Network(address).subnet_of(IPv4Interface(each).network) for each in entry["addresses"])
    ]
    return str(found[0]) if found else ""


def ranks_environment(of: Plan) -> list[dict[str, str]]:
    return [rank_environment(each.node, of.models[0].nodes) for each in of.nodes]


def test_nccl_is_told_of_every_rail_and_how_to_choose() -> None:
    for env in ranks_environment(ring_plan(**RING)):
        assert env["NCCL_SOCKET_IFNAME"] == "=" + ",".join(DEVICES)
        assert len(env["NCCL_IB_HCA"].split(",")) == 4
        assert env["GLOO_SOCKET_IFNAME"] == env["TP_SOCKET_IFNAME"] == DEVICES[0]
        assert (env["NCCL_IB_MERGE_NICS"], env["NCCL_IB_SUBNET_AWARE_ROUTING"]) == ("0", "1")
        # A quarter of a /24.
        assert env["NCCL_IB_SUBNET_PREFIX_LEN"] == "26"


def test_a_cluster_of_two_in_a_ring_keeps_to_the_cable_between_them() -> None:
    one, _, three = ring_of(knobs())
    env = rank_environment(one, (one, three))
    assert env["NCCL_SOCKET_IFNAME"] == "=" + ",".join(DEVICES[2:]) and env["GLOO_SOCKET_IFNAME"] == DEVICES[2]
    assert env["NCCL_IB_HCA"] == "=rocep1s0f1,roceP2p1s0f1"


def test_without_rdma_nothing_is_said_of_it() -> None:
    (one, *_) = ring_of(knobs())
    object.__setattr__(one, "rdma", ())
    assert not [name for name in rank_environment(one, ring_of(knobs())) if name.startswith("NCCL_IB")]


def text_of(of: Plan, index: int, unit: str, name: str) -> str:
    program = of.nodes[index].services[unit]
    assert program
    return next(file.content for file in program.files if file.path.endswith(name))


def test_ranks_meet_at_the_head_s_first_rail_and_say_their_own() -> None:
    of = ring_plan(**RING)
    for index, node in enumerate(of.nodes):
        files = {file.path.rsplit("/", 1)[1]: file.content for file in engine_of(node).files}
        meeting = json.loads(files["meeting.json"])
        assert meeting["address"] == "192.168.177.11" and meeting["node"] == node.node.name
        devices = zip(node.node.rdma, node.node.rail_addresses, strict=True)
        assert meeting["rdma"] == [{"device": device, "address": address} for device, address in devices]
        # Each of its devices leads to one rank alone, and sockets go over all.
        assert meeting["ring_rails"] == list(node.node.rails)
        assert meeting["socket_interfaces"] == "=" + ",".join(node.node.rails)
        assert f"VLLM_HOST_IP={node.node.fabric}\n" in files["engine.env"]
        assert node.node.fabric == ("192.168.177.11", "192.168.177.76", "192.168.177.141")[index]


def test_the_firewall_lets_all_four_rails_by_and_drop_what_comes_from_elsewhere() -> None:
    rules = text_of(ring_plan(**RING), 2, FIREWALL, "tandem.nft")
    assert all(f'"{device}"' in rules for device in DEVICES)
    assert rules.count("ip daddr { 192.168.177.0/24, 192.168.178.0/24 }") == 2


def test_the_canary_watches_four_rails() -> None:
    rails = json.loads(text_of(ring_plan(**RING), 1, CANARY, "canary.json"))["rails"]
    assert [each["address"] for each in rails.values()] == [
        *("192.168.177.76/26", "192.168.178.76/26", "192.168.177.12/26", "192.168.178.12/26")
    ]


def test_what_watches_nodes_asks_them_where_they_are() -> None:
    of = ring_plan(**RING, monitoring="metrics")
    wanted = json.loads(text_of(of, 0, PAGE, "page.json"))
    assert [each["url"] for each in wanted["nodes"]] == [f"http://{each.node.fabric}:8020" for each in of.nodes]
    addresses = {each.node.name: each.node.fabric for each in of.nodes}
    assert targets(of.knobs, addresses)["spark-3"] == "192.168.177.141:8020"


def test_solo_leaves_a_ring_alone() -> None:
    of = ring_plan(topology="solo")
    assert [each.fabric for each in of.nodes] == [()] * 3 and of.head.node.fabric == "127.0.0.1"


def test_subnets_without_room_for_quarters_are_refused() -> None:
    (finding,) = ring.check_subnets([IPv4Network("10.0.0.0/27"), IPv4Network("10.0.1.0/24")])
    assert "too narrow for a ring" in finding.problem and finding.remedy.startswith("give each rail a /26")
    assert ring.check_subnets(RAILS) == [] == ring.check_subnets([IPv4Network("10.0.0.0/26")] * 2)
    assert ring.addressed({}, [IPv4Network("10.0.0.0/28"), IPv4Network("10.0.1.0/28")]) == {}


def problems(node: Node, changes: Mapping[str, Any]) -> list[str]:
    found = survey()
    link = {"carrier": True, "up": True, "mtu": 9000, "mac": "", "driver": "mlx5_core", "rdma": "r", "addresses": []}
    found["state"]["links"] = {device: {**link, **changes.get(device, {})} for device in DEVICES}
    return [each.problem for each in check_survey(node, found, found, ring_plan(**RING).models, knobs(), 3)]


def test_a_cable_that_is_out_is_a_finding_unless_the_node_behind_it_is_away() -> None:
    (one, *_) = ring_of(knobs())
    out = {DEVICES[2]: {"carrier": False}}
    assert problems(one, {}) == []
    assert problems(one, out) == [f"the rail {DEVICES[2]} has no carrier"]
    object.__setattr__(one, "ends", ("spark-2", "spark-2", "", ""))
    assert problems(one, out) == []


def test_the_doctor_measures_each_cable() -> None:
    here = [links(node) for node in ring_of(knobs())]
    for one, other in ((0, 1), (1, 2), (2, 0)):
        assert len(ways.between(here[one], here[other])) == 2


def test_what_a_ring_needs_of_nccl_is_said_once_and_not_of_two_nodes() -> None:
    (line,) = ring.ring_remarks(ring_plan(**RING).models)
    assert "NCCL has to be 2.30.7 or newer" in line
    assert ring.ring_remarks(plan(3).models) == []
    assert ring.ring_remarks(ring_plan(topology="replicas").models) == []
