"""What a survey says of the owner's firewall: rails that are shut are findings, with the line that opens them."""

from __future__ import annotations

from typing import Any

import pytest

from operations.plan.cluster.fabric import inlets, proof_ports
from tests.plan.samples import knobs, survey
from tests.plan.test_checks import findings


def shut(device: str, net: int, *, by: str = "ufw") -> Any:
    remedy = f"sudo ufw allow in on {device}"
    return {"device": device, "own": f"192.168.{net}.11/24", "is_door": False, "by": by, "remedy": remedy}


BOTH = [shut("enp1s0f0np0", 177), shut("enP2p1s0f0np0", 178)]


def test_shut_rails_are_one_finding_with_the_line_that_opens_them() -> None:
    assert findings(survey(shut=BOTH[::-1])) == (
        "ufw lets no connection in over `enp1s0f0np0`, `enP2p1s0f0np0`: ranks and copies could not reach this node -> "
        "sudo ufw allow in on enp1s0f0np0 && sudo ufw allow in on enP2p1s0f0np0"
    )


@pytest.mark.parametrize(
    "found",
    [
        [],
        # Of the other rail's subnet: that one never comes in here.
        [shut("enp1s0f0np0", 178)],
        [shut("enp1s0f1np1", 177)],
        [BOTH[0] | {"is_door": True}],
    ],
    ids=["nothing", "another subnet", "no rail", "the door"],
)
def test_what_no_rail_needs_may_be_shut(found: Any) -> None:
    assert findings(survey(shut=found)) == ""


def test_in_solo_rails_may_be_shut() -> None:
    assert findings(survey(shut=BOTH), topology="solo") == ""
    assert inlets(knobs(topology="solo"), 0)["subnets"] == []


def test_the_ports_that_are_tried_are_the_plan_s_and_nobody_listens_on_the_first_of_them() -> None:
    wanted = knobs()
    assert proof_ports(wanted) == [26030, 26299]
    assert inlets(wanted, 1)["ports"] == [26030, 26299, 8001]


@pytest.mark.parametrize(
    ("changes", "door"),
    [
        ({"proxy_bind": "loopback"}, 0),
        ({"proxy_bind": "10.0.0.5"}, 0),
        ({"proxy_bind": "management"}, 8000),
        ({"proxy_bind": "all"}, 8000),
        ({"proxy_bind": "loopback", "proxy_address": "10.0.0.50"}, 8000),
    ],
    ids=str,
)
def test_the_door_is_tried_where_clients_come_in_over_the_office(changes: Any, door: int) -> None:
    assert inlets(knobs(**changes), 0)["door"] == door
