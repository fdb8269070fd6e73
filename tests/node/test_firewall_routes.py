"""A rail whose netdev goes, as a ConnectX-7's may with its cable: what listens on it goes on for its own node."""

from __future__ import annotations

import re
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.node.firewall_site import FABRIC, NEEDS, PEER, Site, built
from tests.node.spaces import Place, wire

pytestmark = NEEDS

RAIL = "enp1s0f0np0"
ENGINE: Place = ("tcp", FABRIC, 8001)
OTHER: Place = ("tcp", PEER, 8001)


@pytest.fixture
def site(tmp_path: Path) -> Iterator[Site]:
    """A site whose node has its firewall, and a way out over the office."""
    with built(tmp_path) as found:
        found.node.run("ip", "route", "add", "default", "via", "10.99.0.1")
        found.render()
        yield found


def index(site: Site) -> int:
    found = re.match(r"(\d+):", site.node.run("ip", "-o", "link", "show", RAIL))
    assert found
    return int(found[1])


def test_without_its_netdev_an_engine_answers_its_own_node_and_the_other_one_when_it_is_back(site: Site) -> None:
    site.sh("load")
    assert site.node.ask([ENGINE, OTHER]) == {ENGINE: "hello", OTHER: "hello"}
    before = index(site)
    site.node.run("ip", "link", "del", RAIL)
    assert site.node.ask([ENGINE]) == {ENGINE: "hello"}
    # One that starts now listens there too.
    late: Place = ("tcp", FABRIC, 8002)
    site.node.listen(late)
    assert site.node.ask([late]) == {late: "hello"}
    # Under another index, with an address by whoever renders netplan.
    site.node.run("ip", "link", "add", "taken", "type", "veth")
    wire(site.node, RAIL, site.peer, RAIL)
    site.node.address(RAIL, f"{FABRIC}/24")
    site.peer.address(RAIL, f"{PEER}/24")
    assert index(site) != before
    assert site.peer.ask([ENGINE, late]) == {ENGINE: "hello", late: "hello"}
    assert site.node.ask([OTHER]) == {OTHER: "hello"}
    # The firewall knows the rail by its name.
    inside: Place = ("tcp", FABRIC, 39983)
    assert site.peer.ask([inside]) == {inside: "hello"}
    assert site.sh("problem") == ""


def test_what_is_meant_for_the_fabric_leaves_over_no_other_network(site: Site) -> None:
    """Somebody in the office who takes the other node's address would be told what clients ask."""
    site.office.run("ip", "addr", "add", f"{PEER}/24", "dev", "eth0")
    site.office.listen(("tcp", PEER, 8001))
    site.node.run("ip", "link", "del", RAIL)
    assert site.node.ask([OTHER]) == {OTHER: "hello"}
    site.sh("load")
    begun = time.monotonic()
    assert site.node.ask([OTHER]) == {OTHER: "silent"}
    # It is known at once, and another engine is asked.
    assert time.monotonic() - begun < 0.9


def test_a_route_that_is_taken_away_is_seen_and_those_of_an_older_plan_go(site: Site) -> None:
    site.sh("load")
    site.node.run("ip", "route", "del", "local", "192.168.178.11", "dev", "lo", "table", "local")
    assert "the route `local 192.168.178.11` is gone" in site.sh("problem")
    site.sh("load")
    assert site.sh("problem") == ""
    site.node.run("ip", "route", "del", "unreachable", "192.168.177.0/24", "metric", "4000000000")
    assert "the route `unreachable 192.168.177.0/24` is gone" in site.sh("problem")
    site.render(topology="solo")
    site.sh("load")
    assert site.sh("problem") == "" and own_routes(site) == []
    site.render()
    site.sh("load")
    assert len(own_routes(site)) == 4
    site.sh("drop")
    assert own_routes(site) == []


def own_routes(site: Site) -> list[str]:
    return [line for line in site.node.run("ip", "route", "show", "table", "all").splitlines() if "4000000000" in line]
