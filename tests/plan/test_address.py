"""The virtual address: who has it, and what speaks against one before it is taken."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import pytest

from operations.paths import ADDRESS, PROXY, PROXY_CONFIG
from operations.plan.config.refusal import Refusal
from operations.plan.recipes.formats import load_recipe
from operations.plan.services.address import check_address, to_be_told, vrid
from operations.plan.services.proxy import check_named
from tests.plan.samples import knobs, make_plan, nodes, plan

WANTED = "10.0.0.50"
OURS = {"spark-1": "aa:00:00:00:00:01", "spark-2": "aa:00:00:00:00:02"}
#: Of each node, a second interface in the same network.
WIRELESS = {"spark-1": "aa:00:00:00:01:01", "spark-2": "aa:00:00:00:01:02"}


def surveys(**claimed: Any) -> dict[str, Any]:
    """Of two nodes; `claimed`: what the first has heard."""
    return {
        name: {
            "office": {
                "macs": [OURS[name], WIRELESS[name]],
                "addresses": {f"10.0.0.{11 + index}": "enP7s7", f"10.0.0.{61 + index}": "wlP9s9"},
            },
            "claimed": {"mac": "", "vrids": {}} | (claimed if index == 0 else {}),
            "state": {"services": {"units": {ADDRESS: {}}}},
        }
        for index, name in enumerate(OURS)
    }


def said(address: str = WANTED, claimed: dict[str, Any] | None = None, **changes: Any) -> str:
    """What speaks against an address on two nodes; `claimed`: what the first has heard."""
    wanted = knobs(proxy_address=address, **changes)
    serving = nodes(2, wanted)[: 1 if wanted.topology == "solo" else 2]
    findings = check_address(wanted, serving, surveys(**claimed or {}))
    return "\n".join(f"{each.where}: {each.problem}" for each in findings)


def test_no_address_is_the_default_and_nothing_speaks_against_a_free_one() -> None:
    assert not any(ADDRESS in each.services for each in plan().nodes)
    assert said("") == said() == ""


@pytest.mark.parametrize(
    ("address", "problem"),
    [
        (
            "10.0.1.50",
            "spark-1: proxy_address=10.0.1.50 lies outside 10.0.0.0/24, the network of its login's interface enP7s7",
        ),
        ("127.0.0.1", "lies outside 10.0.0.0/24"),
        ("10.0.0.0", "is the network's or the broadcast address of 10.0.0.0/24"),
        ("10.0.0.255", "is the network's or the broadcast address of 10.0.0.0/24"),
        ("10.0.0.12", "spark-2: proxy_address=10.0.0.12 is its own address (enP7s7)"),
        ("10.0.0.61", "spark-1: proxy_address=10.0.0.61 is its own address (wlP9s9)"),
        ("192.168.178.50", "lies in a subnet of the rails"),
    ],
)
def test_an_address_that_can_t_be_is_refused(address: str, problem: str) -> None:
    assert problem in said(address)


def test_an_address_of_somebody_else_s_is_refused_and_one_that_a_node_of_ours_has_is_not() -> None:
    assert said(claimed={"mac": "bb:00:00:00:00:01"}) == (
        "spark-1: proxy_address=10.0.0.50 is held by another host (bb:00:00:00:00:01, heard on enP7s7)"
    )
    # A node that has it answers for it from all its interfaces, and so does one that serves no more.
    assert said(claimed={"mac": OURS["spark-2"]}) == said(claimed={"mac": WIRELESS["spark-2"]}) == ""
    assert said(claimed={"mac": OURS["spark-2"]}, topology="solo") == ""


def test_a_node_that_has_it_from_tandem_is_not_one_that_has_it_from_its_owner() -> None:
    wanted, found = knobs(proxy_address=WANTED), surveys()
    found["spark-2"]["office"]["addresses"][WANTED] = "enP7s7"
    (finding,) = check_address(wanted, nodes(2, wanted), found)
    assert (finding.where, finding.problem) == ("spark-2", f"proxy_address={WANTED} is its own address (enP7s7)")
    found["spark-2"]["state"]["services"]["units"][ADDRESS] = {"address": WANTED}
    assert not list(check_address(wanted, nodes(2, wanted), found))


def test_a_vrrp_id_of_a_neighbour_s_is_refused_and_our_own_is_not() -> None:
    assert "10.0.0.7 uses VRRP's id 50 on the same network" in said(claimed={"vrids": {"50": ["10.0.0.7"]}})
    assert said(claimed={"vrids": {"50": ["10.0.0.12"], "51": ["10.0.0.7"]}}) == ""
    # Of a plan that this one takes the place of.
    assert said(claimed={"vrids": {"50": ["10.0.0.12"]}}, topology="solo") == ""
    assert said(claimed={"vrids": {"50": ["10.0.0.7"]}}, proxy_vrid=9) == ""
    assert vrid(knobs(proxy_address="10.0.1.0")) == 255


def test_nodes_in_two_networks_can_t_share_an_address() -> None:
    wanted = knobs(proxy_address=WANTED)
    first, second = nodes(2, wanted)
    apart = [first, replace(second, office="10.9.0.12/24", management="10.9.0.12")]
    (finding,) = check_address(wanted, apart, surveys())
    assert finding.where == "spark-2" and "lies outside 10.9.0.0/24" in finding.problem
    (finding,) = check_address(wanted, [first, replace(second, office="")], surveys() | {"spark-2": {}})
    assert "no IPv4 interface is known" in finding.problem


@pytest.mark.parametrize("address", ["fd00::50", "spark-door", "10.0.0"])
def test_what_is_no_ipv4_address_is_no_knob(address: str) -> None:
    with pytest.raises(Refusal, match="proxy_address"):
        knobs(proxy_address=address)


def test_one_address_can_t_be_a_node_s_own_and_move() -> None:
    with pytest.raises(Refusal, match="proxy_address and proxy_bind are both"):
        knobs(proxy_address=WANTED, proxy_bind=WANTED)


def text(of: Any, name: str) -> str:
    return next(str(file.content) for file in of.files if file.path.endswith(name))


def test_the_proxy_listens_on_it_on_every_node_and_clients_know_it() -> None:
    made = plan(topology="replicas", proxy_bind="management", proxy_address=WANTED)
    for each in made.nodes:
        config = text(each.container(PROXY), PROXY_CONFIG)
        assert f"bind {WANTED}:8000 transparent\n" in config
        assert 'bind "${OFFICE}" transparent\n' in config
        kept = text(each.container(ADDRESS), "keepalived.conf")
        assert "    include /office/unicast.conf\n" in kept and "virtual_router_id 50\n" in kept
        assert f"        {WANTED}/32 dev enP7s7\n" in kept
        assert f"tandem.address=http://{WANTED}:8000" in text(each.container(PROXY), "/run.sh")
    everywhere = plan(topology="replicas", proxy_bind="all", proxy_address=WANTED).head.container(PROXY)
    assert "bind 0.0.0.0:8000\n" in text(everywhere, PROXY_CONFIG) and WANTED not in text(everywhere, PROXY_CONFIG)


def test_solo_has_it_on_the_head_alone() -> None:
    made = plan(topology="solo", proxy_address=WANTED)
    assert ADDRESS in made.head.services and ADDRESS not in made.nodes[1].services


@pytest.mark.parametrize("more", [{}, {"proxy_address": WANTED}, {"tls": "self"}, {"proxy_bind": "all"}])
def test_another_address_of_a_node_s_in_the_office_changes_nothing_that_lies_there(more: dict[str, Any]) -> None:
    """It was waited for, for ever, by a proxy that was bound to it; and a deploy after it started the proxies anew."""
    wanted = knobs(**{"topology": "replicas", "proxy_bind": "management", **more})
    first, second = nodes(2, wanted)
    moved = replace(second, office="10.0.0.77/24", management="10.0.0.77")
    recipe = load_recipe(wanted.recipe)
    before, after = (make_plan(recipe, wanted, [first, each]) for each in (second, moved))
    for old, new in zip(before.nodes, after.nodes, strict=True):
        assert old.services == new.services
    assert "10.0.0.12" not in str([each.services for each in before.nodes])
    assert after.urls["spark-2"].endswith("://10.0.0.77:8000")


def test_who_tells_whom_of_addresses() -> None:
    def told(**changes: Any) -> list[Any]:
        made = [each.services.get("tandem-office") for each in plan(topology="replicas", **changes).nodes]
        return [json.loads(text(each, "/office.json")) if each else None for each in made]

    assert told(proxy_bind="loopback") == [None, None]
    for each in told(proxy_bind="management"):
        assert (each["device"], each["others"], each["names"]) == ("enP7s7", {}, [])
    head, other = told(proxy_bind="management", proxy_address=WANTED, tls="self")
    assert head["others"] == {"spark-2": "192.168.177.12"} and other["others"] == {"spark-1": "192.168.177.11"}
    assert head["fabric"] == ["192.168.177.11", 26012] and other["fabric"] == ["192.168.177.12", 26012]
    # The head alone signs, and for the names of the plan.
    assert head["signs"] == {each["name"]: [each["name"], "localhost", "127.0.0.1", WANTED] for each in (head, other)}
    assert other["signs"] == {} and other["head"] == "spark-1"
    solo = plan(topology="solo", proxy_bind="management", tls="self").head.services["tandem-office"]
    assert json.loads(text(solo, "/office.json"))["others"] == {}


def test_a_node_is_told_where_the_others_are_when_it_does_not_know_it() -> None:
    """Those that are off as well: one that comes back with the plan of before would take the address a second time."""
    first, second, third = nodes(3, knobs())
    everybody = [first, second, third]
    theirs = {"spark-2": ["10.0.0.12"], "spark-3": ["10.0.0.13"]}
    assert to_be_told("spark-1", everybody, [], {}) == theirs
    assert to_be_told("spark-1", everybody, [], theirs) == {}
    # Heard from the node itself, which has one address more.
    assert to_be_told("spark-1", everybody, [], theirs | {"spark-2": ["10.0.0.12", "10.9.0.12"]}) == {}
    assert to_be_told("spark-1", everybody, [], theirs | {"spark-2": ["10.0.0.99"]}) == theirs
    assert to_be_told("spark-1", [first, second], ["spark-3"], theirs) == {}
    assert to_be_told("spark-1", [first, second], [], theirs) == {"spark-2": ["10.0.0.12"]}
    assert to_be_told("spark-1", [first, second], ["spark-3"], {}) == {"spark-2": ["10.0.0.12"]}


def test_whom_keepalived_spoke_with_is_kept_while_a_node_is_away_whose_address_nobody_has_written_down() -> None:
    """As an upgrade finds it: without it the node that comes back is alone, and takes the address a second time."""
    first, second, _ = nodes(3, knobs())
    before = {each: [each] for each in ("10.0.0.12", "10.0.0.13")}
    told = to_be_told("spark-1", [first, second], ["spark-3"], before)
    assert told == {"10.0.0.13": ["10.0.0.13"], "spark-2": ["10.0.0.12"]}
    assert to_be_told("spark-1", [first, second], ["spark-3"], told) == {}
    # Nobody is away, or the one that is has spoken.
    assert to_be_told("spark-1", [first, second], [], told) == {"spark-2": ["10.0.0.12"]}
    now = {"spark-2": ["10.0.0.12"], "spark-3": ["10.0.0.14"]}
    assert to_be_told("spark-1", [first, second], ["spark-3"], told | now) == now


def test_a_named_address_that_the_head_does_not_have_is_said() -> None:
    has = ["127.0.0.1", "10.0.0.11"]
    head = nodes(2, knobs(topology="cluster"))[0]
    (found,) = check_named(knobs(proxy_bind="10.0.0.71"), head, has)
    assert (found.where, found.problem) == ("spark-1", "proxy_bind=10.0.0.71: no interface here has this address")
    assert "ip -4 addr" in found.remedy
    # On loopback any is there; a rail's is given by the deploy; and a login by IPv6 says of none.
    for bind in ("10.0.0.11", "127.0.0.5", "0.0.0.0", "loopback", "all", "management", head.fabric):
        assert not list(check_named(knobs(proxy_bind=bind), head, has))
    assert not list(check_named(knobs(proxy_bind="10.0.0.71"), head, []))
