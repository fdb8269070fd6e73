"""A port that shows one netdev is a rail too, and nodes use those that all of them have."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from operations.plan.checks import check_survey
from operations.plan.cluster.environment import rank_environment
from operations.plan.cluster.fabric import rails_of, strays
from operations.plan.cluster.nodes import Link, choose_rails
from operations.plan.cluster.shared_rails import half_remarks, placed, shared
from tests.plan.samples import knobs, nodes, plan, survey

FIRST, SECOND = "enp1s0f0np0", "enP2p1s0f0np0"
SUBNETS = knobs().rail_subnets


@pytest.mark.parametrize(
    ("one", "other", "rails", "subnets"),
    [
        ((FIRST, SECOND), (FIRST, SECOND), ((FIRST, SECOND), (FIRST, SECOND)), SUBNETS),
        ((FIRST, SECOND), (FIRST,), ((FIRST,), (FIRST,)), SUBNETS[:1]),
        ((FIRST, SECOND), (SECOND,), ((SECOND,), (SECOND,)), SUBNETS[1:]),
        ((SECOND,), (SECOND,), ((SECOND,), (SECOND,)), SUBNETS[1:]),
        # Halves of one port hear each other.
        ((FIRST,), (SECOND,), ((FIRST,), (SECOND,)), SUBNETS[:1]),
        # Named by the owner.
        (("a", "b"), ("c",), (("a",), ("c",)), SUBNETS[:1]),
        # Refused elsewhere, and no matter of the others.
        ((FIRST, SECOND), (), ((FIRST, SECOND), ()), SUBNETS),
    ],
)
def test_nodes_use_the_halves_that_all_of_them_have(one: Any, other: Any, rails: Any, subnets: Any) -> None:
    found = shared({"spark-1": one, "spark-2": other}, SUBNETS)
    assert (found["spark-1"][0], found["spark-2"][0]) == rails
    assert all(each[1] == (subnets if each[0] else ()) for each in found.values())


def test_a_half_that_is_alone_keeps_its_address_when_the_other_one_comes_back() -> None:
    for device in (FIRST, SECOND):
        alone, both = placed([device], SUBNETS), placed([FIRST, SECOND], SUBNETS)
        assert dict(zip(*alone, strict=True)).items() <= dict(zip(*both, strict=True)).items()
    assert choose_rails([Link(SECOND, True)]) == (SECOND,)


def test_what_is_missing_is_said_with_what_to_check() -> None:
    (said,) = half_remarks({"spark-1": (FIRST, SECOND), "spark-2": (FIRST,), "spark-3": ()})
    assert said.startswith("spark-2: its port shows one netdev, enp1s0f0np0")
    assert "half of its bandwidth is missing" in said and "lspci -d 15b3:" in said


def test_a_cluster_over_one_rail_names_it_alone() -> None:
    wanted = knobs(topology="cluster")
    on = [replace(node, rails=(SECOND,), rdma=("roceP2p1s0f0",), subnets=SUBNETS[1:]) for node in nodes(2, wanted)]
    (rail,) = rails_of(wanted, on[1])
    assert (rail.device, rail.address) == (SECOND, "192.168.178.12/24")
    assert on[0].fabric == "192.168.178.11"
    variables = rank_environment(on[1], on)
    assert variables["NCCL_SOCKET_IFNAME"] == f"={SECOND}"
    assert "roceP2p1s0f0" in variables["NCCL_IB_HCA"] and "rocep1s0f0" not in variables["NCCL_IB_HCA"]
    # What it had with both is taken away.
    link: Any = {"addresses": ["192.168.177.12/24"]}
    assert strays(wanted, on[1], {FIRST: link}) == [(FIRST, "192.168.177.12/24")]
    assert check_survey(on[0], survey(), survey(), plan(topology="cluster").models, wanted, 2) == []


def test_without_any_netdev_it_is_the_cable_that_is_named() -> None:
    wanted = knobs(topology="replicas")
    bare = replace(nodes(2, wanted)[1], rails=(), rdma=(), subnets=())
    found = survey(state=survey()["state"] | {"links": {}})
    told = check_survey(bare, found, survey(), plan(topology="replicas").models, wanted, 2)
    assert [each.problem for each in told] == ["no interface of a ConnectX is here, and a fabric needs one"]
    assert told[0].remedy.startswith("plug the cable in at both ends")
    # So where the owner has named them.
    told = check_survey(nodes(2, wanted)[1], found, survey(), plan(topology="replicas").models, wanted, 2)
    assert [each.problem for each in told] == [f"there is no interface {each}" for each in (FIRST, SECOND)]
    assert all(each.remedy.startswith("plug the cable in at both ends") for each in told)


def test_three_netdevs_of_one_port_are_the_owner_s_to_choose_from() -> None:
    wanted = knobs(topology="replicas")
    crowd = replace(nodes(2, wanted)[1], rails=(FIRST, "enp2s0f0np0", SECOND))
    found = survey()
    found["state"]["links"]["enp2s0f0np0"] = found["state"]["links"][FIRST]
    told = check_survey(crowd, found, survey(), plan(topology="replicas").models, wanted, 2)
    assert [each.problem for each in told] == [f"a fabric has two rails, here are 3: {', '.join(crowd.rails)}"]


@pytest.mark.parametrize("left", [(), ("enp1s0f1np1", "enP2p1s0f1np1")])
def test_rails_that_went_with_their_cable_do_not_move_to_a_port_without_one(left: tuple[str, ...]) -> None:
    """The other port may be down, as nobody has ever used it: it looks like a fresh node's."""
    wanted = knobs(topology="replicas")
    found = survey()
    link = found["state"]["links"][FIRST] | {"carrier": False, "up": False}
    found["state"] |= {"links": dict.fromkeys(left, link), "firewall": {"problem": "", "inside": ["lo", FIRST, SECOND]}}
    node = replace(nodes(2, wanted)[1], rails=left, subnets=SUBNETS if left else ())
    (told,) = check_survey(node, found, survey(), plan(topology="replicas").models, wanted, 2)
    assert told.problem == f"these interfaces are gone: {FIRST}, {SECOND}"
    assert told.remedy.startswith("plug the cable in at both ends")
    # Whoever has moved the cable has moved it.
    for device in left:
        found["state"]["links"][device] = link | {"carrier": True, "up": True}
    again = check_survey(node, found, survey(), plan(topology="replicas").models, wanted, 2)
    assert again == ([] if left else [told])
