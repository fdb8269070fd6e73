"""What a deploy does to nodes in a given state, in which order; and what it refuses before it does anything."""

from __future__ import annotations

import json
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pytest

from operations.paths import ALONE, ALONE_SINCE, ARP, ENGINE, LITELLM, NETPLAN, NETWORK_MANAGER, PROXY, SYSCTL
from operations.plan.decide.actions import LetCooldownsEnd, ServiceStops
from operations.plan.plan import Plan
from operations.plan.services.litellm import Behind
from operations.plan.services.litellm_service import config_of, litellm_service
from tests.deploy.decided import Decided, decided, start, stop
from tests.deploy.fake import NAMES, deploy, fresh, look, planned
from tests.plan.samples import ROOT

START = "systemctl start --no-block tandem-engine.service"
STOP = "systemctl stop tandem-engine.service"

#: A cluster that Ray joins, in an image that has it.
RAY = {"topology": "cluster", "executor": "ray", "recipe": "nemotron-3-super-nvfp4-marlin"}
EVERY = [
    {"topology": "solo"},
    RAY,
    {"topology": "cluster", "executor": "mp"},
    {"topology": "cluster", "executor": "mp", "fallback": "solo"},
    {"topology": "replicas"},
]


def flags(**changes: Any) -> list[str]:
    return [word for name, value in changes.items() for word in ("--data", f"{name}={value}")]


def as_planned(**changes: Any) -> list[dict[str, Any]]:
    plan = planned(**changes)
    return [look(plan, name) for name in NAMES]


@pytest.mark.parametrize("changes", EVERY, ids=lambda changes: "-".join(changes.values()))
def test_nodes_that_are_as_planned_see_no_change(tmp_path: Path, changes: dict[str, str]) -> None:
    outcome = deploy(tmp_path, as_planned(**changes), "-y", "--json", *flags(**changes))
    assert outcome.code == 0, outcome.text
    totals = json.loads(outcome.json)["results"]["totals"]
    assert totals["no_change"] > 30
    assert totals["no_change"] == totals["hosts"]
    assert outcome.commands == []


def test_a_plan_ends_with_what_it_comes_to(tmp_path: Path) -> None:
    states = as_planned(topology="replicas")
    outcome = deploy(tmp_path, states, "--dry", *flags(topology="replicas"))
    assert outcome.code == 0 and outcome.text.splitlines()[-1] == "nothing would change", outcome.text
    outcome = deploy(tmp_path, states, "--dry", *flags(topology="cluster"))
    assert outcome.text.splitlines()[-1] == (
        f"would change on: {', '.join(NAMES)}; engines that would start anew: "
        + ", ".join(f"{ENGINE} on {name} (other settings)" for name in NAMES)
    )
    assert deploy(tmp_path, states, "--dry", "--data", "topology=pair").text.count("would") == 0
    assert outcome.commands == []


def test_on_fresh_nodes_engines_start_behind_guard_and_firewall_and_before_the_proxies(tmp_path: Path) -> None:
    plan = planned(**RAY)
    journal = {"seen": dict.fromkeys(plan.models[0].recipe.proof.expect, "as expected"), "invocation": "", "cursor": ""}
    states = [fresh(plan, name) for name in NAMES]
    outcome = deploy(tmp_path, states, "-y", *flags(**RAY), programs={"unit.journal": journal})
    assert outcome.code == 0, outcome.text
    starts = "systemctl start --no-block tandem-{}.service"
    for node in (1, 2):
        first = ("ray.token", starts.format("guard"), "start tandem-firewall")
        before = [outcome.position(node, each) for each in first]
        assert max(before) < outcome.position(node, START) < outcome.position(node, starts.format("proxy"))


def test_what_can_be_done_while_the_old_engines_serve_is_done_before_they_stop(tmp_path: Path) -> None:
    states = as_planned(topology="replicas")
    outcome = deploy(tmp_path, states, "-y", *flags(topology="cluster"))
    assert outcome.code == 0, outcome.text
    for node in (1, 2):
        order = [outcome.position(node, part) for part in ("canary.json", "engine.env", STOP, "tandem.nft")]
        assert order == sorted(order) and order[-1] - order[-2] < 5, order


def test_how_long_the_service_was_away_is_the_last_line(tmp_path: Path) -> None:
    # Fake nodes are as they were whatever is done to them, so nothing is seen to start.
    code = "from operations.runner.stopwatch import Stopwatch\nStopwatch.switch_report = lambda self: 'away for 9 s'\n"
    outcome = deploy(tmp_path, as_planned(), "-y", inventory=code)
    assert outcome.code == 0 and outcome.text.splitlines()[-1] == "the service was away for 9 s", outcome.text


def test_a_node_that_serves_alone_becomes_a_rank_again(tmp_path: Path) -> None:
    states = as_planned(fallback="solo")
    states[1]["alone"] = {"since": "2026-11-24 03:00:00", "why": "spark-1 is missing"}
    states[1]["services"]["units"][ENGINE] |= {"spec": "alone", "topology": "solo"}
    outcome = deploy(tmp_path, states, "-y", *flags(fallback="solo"))
    assert outcome.code == 0, outcome.text
    assert "serves alone since 2026-11-24 03:00:00, in the place of a cluster: that ends here" in outcome.text
    gone = outcome.position(2, f"rm -f {ALONE} {ALONE_SINCE} && systemctl daemon-reload")
    assert gone < outcome.position(2, STOP)
    assert not [command for node, command in outcome.commands if node == "spark-1" and "systemctl" in command]


@pytest.mark.parametrize("topology", ["solo", "replicas"])
def test_who_serves_alone_does_so_no_more_in_another_topology(tmp_path: Path, topology: str) -> None:
    states = as_planned(fallback="solo")
    for state in states:
        state["alone"] = {"since": "then", "why": "the other is missing"}
        state["services"]["units"][ENGINE] |= {"spec": "alone", "topology": "solo"}
    outcome = deploy(tmp_path, states, "-y", *flags(topology=topology, fallback="solo"))
    assert outcome.code == 0, outcome.text
    for node in (1, 2):
        outcome.position(node, f"rm -f {ALONE} {ALONE_SINCE} && systemctl daemon-reload")
        outcome.position(node, "systemctl --no-reload disable --now --quiet tandem-fallback.service")


def test_to_fall_back_or_not_restarts_no_rank(tmp_path: Path) -> None:
    outcome = deploy(tmp_path, as_planned(), "-y", *flags(fallback="solo"))
    assert outcome.code == 0, outcome.text
    outcome.position(2, "systemctl start --no-block tandem-fallback.service")
    assert not [command for _, command in outcome.commands if STOP in command or START in command]


def test_to_solo_the_worker_s_engine_is_removed(tmp_path: Path) -> None:
    outcome = deploy(tmp_path, as_planned(topology="cluster"), "-y", *flags(topology="solo"))
    assert outcome.code == 0, outcome.text
    outcome.position(2, "systemctl --no-reload disable --now --quiet tandem-engine.service")
    outcome.position(2, "rm -rf /etc/systemd/system/tandem-engine.service /run/systemd/system/tandem-engine.service.d")
    assert not [command for _, command in outcome.commands if "rm" in command.split() and "hub" in command]


def test_replicas_are_renewed_one_at_a_time(tmp_path: Path) -> None:
    states = as_planned(topology="replicas")
    for state in states:
        state["services"]["units"][ENGINE]["spec"] = "older"
    outcome = deploy(tmp_path, states, "-y", *flags(topology="replicas"))
    assert outcome.code == 0, outcome.text
    assert (
        outcome.position(1, STOP) < outcome.position(1, START) < outcome.position(2, STOP) < outcome.position(2, START)
    )


def test_what_waits_to_be_renewed_has_its_own_files_until_then() -> None:
    states = as_planned(topology="replicas")
    for state in states:
        state["services"]["units"][ENGINE]["spec"] = "older"
        state["files"]["/etc/tandem/engine/start.sh"]["sha256"] = "of another plan"
    outcome = decided(planned(topology="replicas"), states)
    # Should it end before, it comes back as what the proxies know.
    order = [outcome.position(1, start()), outcome.position(2, "engine/start.sh"), outcome.position(2, stop())]
    assert order == sorted(order) and not outcome.refused


DOWN = {
    "ok": False,
    "listens": False,
    "problem": "Connection refused",
    "log": ["no such file"],
    "state": {"ActiveState": "failed", "NRestarts": "0"},
}


def test_a_replica_that_serves_nobody_is_renewed_before_the_one_that_serves(tmp_path: Path) -> None:
    states = as_planned(topology="replicas")
    for state in states:
        state["services"]["units"][ENGINE]["spec"] = "older"
    outcome = deploy(tmp_path, states, "-y", *flags(topology="replicas"), by_node={NAMES[1]: {"engine.probe": DOWN}})
    # At once and without its turn; where it does not come up the last one that serves is left alone.
    outcome.position(2, STOP)
    assert outcome.refused and ("spark-1", STOP) not in outcome.commands
    assert "the engine of @fake/spark-1 is not stopped" in outcome.text, outcome.text


def test_a_plan_shows_the_files_of_what_waits_to_be_renewed(tmp_path: Path) -> None:
    states = as_planned(topology="replicas")
    states[1]["services"]["units"][ENGINE]["spec"] = "older"
    states[1]["files"]["/etc/tandem/engine/start.sh"]["sha256"] = "of another plan"
    outcome = deploy(tmp_path, states, "--dry", "--diff", *flags(topology="replicas"))
    assert outcome.code == 0, outcome.text
    assert "[@fake/spark-2] /etc/tandem/engine/start.sh" in outcome.text
    assert "[@fake/spark-1] /etc/tandem/engine/start.sh" not in outcome.text


def know(state: dict[str, Any], plan: Plan, engines: Iterable[str]) -> None:
    """Both LiteLLM of a node have these engines, at these URLs."""
    for unit in LITELLM:
        service = litellm_service(plan.knobs, [Behind(plan.models[0].recipe, tuple(engines))], unit)
        config = next(file for file in service.files if file.path == config_of(unit))
        state["files"][config.path]["sha256"] = state["proxy"]["engines"][unit] = config.sha256


SOLO_URL = "http://127.0.0.1:8001"


def solo_to_replicas(down: Iterable[str] = ()) -> Decided:
    """Of a solo that serves on the head. The proxies of both nodes know already what each of them can reach: the head's
    the solo where it is and where it will be, the other node's where it will be alone; both the other engine.
    """
    plan = planned(topology="replicas")
    states = [look(plan, name) for name in NAMES]
    states[0]["services"]["units"][ENGINE] |= {"spec": "older", "topology": "solo", "url": SOLO_URL}
    states[1]["services"]["units"][ENGINE] = {"UnitFileState": "enabled", "ActiveState": "failed"}
    later = tuple(plan.models[0].endpoints.values())
    for state, engines in zip(states, ((SOLO_URL, *later), later), strict=True):
        know(state, plan, engines)
    return decided(plan, states, tuple(down))


def test_a_solo_serves_until_another_node_does() -> None:
    outcome = solo_to_replicas()
    assert not outcome.refused
    assert outcome.position(2, start()) < outcome.position(1, stop()) < outcome.position(1, start())
    # These nodes stay as they are, so the last word is the first one.
    assert not [path for path in outcome.written() if "config.yaml" in path]
    # At no time nobody serves.
    assert ServiceStops() not in [action for _, action in outcome.actions]


def test_a_solo_serves_on_where_no_other_node_does() -> None:
    outcome = solo_to_replicas(down=NAMES[1:])
    assert outcome.refused and ("spark-1", stop()) not in outcome.commands


def test_a_solo_that_serves_nobody_waits_for_no_turn() -> None:
    outcome = solo_to_replicas(down=NAMES[:1])
    assert outcome.position(1, stop()) < outcome.position(2, start())


def test_the_last_live_replica_waits_for_the_one_that_was_started(tmp_path: Path) -> None:
    states = as_planned(topology="replicas")
    states[0]["services"]["units"][ENGINE]["spec"] = "older"
    states[1]["services"]["units"][ENGINE] = {"UnitFileState": "enabled", "ActiveState": "failed"}
    outcome = deploy(tmp_path, states, "-y", *flags(topology="replicas"), by_node={NAMES[1]: {"engine.probe": DOWN}})
    outcome.position(2, START)
    assert outcome.refused and ("spark-1", STOP) not in outcome.commands
    assert "the engine of @fake/spark-1 is not stopped" in outcome.text
    assert "its unit is failed" in outcome.text and "Traceback" not in outcome.text


def test_a_replica_that_is_only_busy_keeps_its_turn(tmp_path: Path) -> None:
    states = as_planned(topology="replicas")
    states[1]["services"]["units"][ENGINE]["spec"] = "older"
    busy = {"engine.probe": {**DOWN, "listens": True, "problem": "timed out", "state": {"ActiveState": "active"}}}
    nodes = {NAMES[0]: {"engine.probe": DOWN}, NAMES[1]: busy}
    outcome = deploy(tmp_path, states, "-y", *flags(topology="replicas"), by_node=nodes)
    assert outcome.refused and not [ran for _, ran in outcome.commands if ran == STOP], outcome.text


@pytest.mark.parametrize("turns", [2, 1], ids=["the head's first", "the head's is as planned"])
def test_the_proxy_follows_the_first_engine_that_serves_as_planned(turns: int) -> None:
    states = as_planned(topology="replicas")
    for state in states[-turns:]:
        state["services"]["units"][ENGINE]["spec"] = "older"
    states[0]["files"]["/etc/tandem/litellm-a/config.yaml"]["sha256"] = "of other addresses"
    states[0]["proxy"]["engines"][LITELLM[0]] = "of other addresses"
    outcome = decided(planned(topology="replicas"), states)
    order = [outcome.position(1, "a/config.yaml"), outcome.position(2, stop())]
    # It takes them up as it runs.
    assert not [said for _, said in outcome.commands if "litellm" in said and said.startswith(("Stop", "Start"))]
    outcome.position(1, "TakeUp(unit='tandem-litellm-a')")
    if turns == 2:
        # Before, the proxy would have known no engine at all.
        order.insert(0, outcome.position(1, start()))
    assert order == sorted(order) and not outcome.refused


def test_an_engine_that_waits_to_be_renewed_is_asked_where_it_was_until_then() -> None:
    states, plan, older = as_planned(topology="replicas"), planned(topology="replicas"), "http://192.168.177.12:7001"
    states[1]["services"]["units"][ENGINE] |= {"spec": "older", "url": older}
    for state in states:
        # Where it is, and where it will be.
        first, later = plan.models[0].endpoints.values()
        know(state, plan, (first, older, later))
    outcome = decided(plan, states)
    # These nodes stay as they are: the last word is the same. Nobody is told of the other address too soon.
    outcome.position(2, stop())
    assert not [path for path in outcome.written() if "config.yaml" in path]


@pytest.mark.parametrize(
    ("runs", "asked"),
    [
        ({"url": "http://192.168.177.12:7001", "model": "older"}, (0, 1)),
        ({"model": "older"}, (0,)),
    ],
    ids=["at another address", "at its own"],
)
def test_an_engine_of_an_older_name_is_not_asked_for_the_new_one(runs: dict[str, str], asked: tuple[int, ...]) -> None:
    states, plan = as_planned(topology="replicas"), planned(topology="replicas")
    states[1]["services"]["units"][ENGINE] |= {"spec": "older", **runs}
    urls = list(plan.models[0].endpoints.values())
    for state in states:
        know(state, plan, [urls[each] for each in asked])
    outcome = decided(plan, states)
    outcome.position(2, stop())
    assert not [path for path in outcome.written() if "config.yaml" in path]


def waits(state: dict[str, Any], unit: str) -> None:
    """The unit has begun a start from another plan, and waits in its ready.sh: it has no container."""
    units = state["services"]["units"]
    units[unit] = {"ActiveState": "activating", "SubState": "start-pre", "UnitFileState": "enabled", "spec": "older"}


@pytest.mark.parametrize("topology", ["solo", "cluster", "replicas"])
def test_an_engine_that_waits_follows_the_plan(topology: str) -> None:
    states = as_planned(topology=topology)
    waits(states[0], ENGINE)
    states[0]["files"]["/etc/tandem/engine/ready.sh"]["sha256"] = "of another port"
    outcome = decided(planned(topology=topology), states)
    # At once, in replicas as well: it serves nobody.
    assert outcome.position(1, "engine/ready.sh") < outcome.position(1, stop())
    assert outcome.of(LetCooldownsEnd) == [] and not outcome.refused
    # A replica elsewhere serves on.
    assert bool(outcome.of(ServiceStops)) == (topology != "replicas")


@pytest.mark.parametrize("topology", ["solo", "cluster", "replicas"])
def test_an_engine_between_two_starts_follows_the_plan(topology: str) -> None:
    states = as_planned(topology=topology)
    states[1]["services"]["units"][ENGINE] = between = {"ActiveState": "activating", "UnitFileState": "enabled"}
    if topology == "solo":
        states[0]["services"]["units"][ENGINE] = between
    # Each rank, or replica, has the files of another plan.
    for state in states:
        if "/etc/tandem/engine/start.sh" in state["files"]:
            state["files"]["/etc/tandem/engine/start.sh"]["sha256"] = "of another plan"
    outcome = decided(planned(topology=topology), states)
    node = 1 if topology == "solo" else 2
    assert outcome.position(node, "engine/start.sh") < outcome.position(node, stop())


def test_a_proxy_that_waits_follows_the_plan() -> None:
    states = as_planned(topology="solo")
    waits(states[0], PROXY)
    states[0]["files"]["/etc/tandem/proxy/ready.sh"]["sha256"] = "of another port"
    outcome = decided(planned(topology="solo"), states)
    order = [outcome.position(1, said) for said in ("proxy/ready.sh", stop(PROXY), start(PROXY))]
    assert order == sorted(order)


def test_what_waits_as_the_plan_wants_it_is_left_alone() -> None:
    states = as_planned(topology="replicas")
    engine = states[1]["services"]["units"][ENGINE]
    engine["ActiveState"] = "activating"
    del engine["image"], engine["topology"]
    outcome = decided(planned(topology="replicas"), states)
    assert outcome.commands == [] and not outcome.refused


def test_the_links_of_a_unit_follow_its_file(tmp_path: Path) -> None:
    states = as_planned(topology="solo")
    states[0]["files"]["/etc/systemd/system/tandem-engine.service"]["sha256"] = "wanted by less"
    outcome = deploy(tmp_path, states, "-y", *flags(topology="solo"))
    assert outcome.code == 0, outcome.text
    reenable = outcome.position(1, "systemctl reenable --quiet tandem-engine.service")
    assert outcome.position(1, "systemctl daemon-reload") < reenable


def test_solo_leaves_the_network_as_it_is(tmp_path: Path) -> None:
    states = as_planned(topology="solo")
    states[0]["files"][NETPLAN] = {"sha256": "of a cluster", "mode": "600"}
    states[0]["links"] = {
        "enp1s0f0np0": {"carrier": False, "up": True, "mtu": 1500, "addresses": [], "rdma": None, "mac": ""}
    }
    states[0]["links"]["enP2p1s0f0np0"] = dict(states[0]["links"]["enp1s0f0np0"])
    outcome = deploy(tmp_path, states, "-y", *flags(topology="solo"))
    assert outcome.code == 0 and outcome.commands == [], outcome.text


@pytest.mark.parametrize("path", (NETPLAN, NETWORK_MANAGER))
def test_all_files_of_the_rails_are_applied_together(tmp_path: Path, path: str) -> None:
    states = as_planned(topology="replicas")
    del states[1]["files"][path]
    outcome = deploy(tmp_path, states, "-y", *flags(topology="replicas"))
    assert outcome.code == 0, outcome.text
    assert [node for node, _ in outcome.commands] == ["spark-2"] * 2
    for each in (NETPLAN, NETWORK_MANAGER):
        outcome.position(2, f"{each}.pending")


@pytest.mark.parametrize("lost", ["the file", "a setting"])
def test_arp_on_the_rails_is_set_without_netplan(tmp_path: Path, lost: str) -> None:
    """Nothing that serves is disturbed by it."""
    states = as_planned(topology="replicas")
    if lost == "the file":
        del states[1]["files"][SYSCTL]
    else:
        states[1]["links"]["enP2p1s0f0np0"]["arp"]["arp_ignore"] = "0"
    outcome = deploy(tmp_path, states, "-y", *flags(topology="replicas"))
    assert outcome.code == 0, outcome.text
    assert ("enP2p1s0f0np0 has arp_ignore 0, not 1" in outcome.text) == (lost == "a setting")
    (written, applied) = [command for node, command in outcome.commands if node == "spark-2"]
    assert SYSCTL in written and "systemd-sysctl" in applied and len(outcome.commands) == 2


def test_arp_is_set_on_the_ports_that_are_no_rails_as_well(tmp_path: Path) -> None:
    states = as_planned(topology="replicas")
    links = states[1]["links"]
    links["enp1s0f1np1"] = links["enp1s0f0np0"] | {"addresses": ["169.254.7.7/16"], "arp": dict.fromkeys(ARP, "0")}
    outcome = deploy(tmp_path, states, "-y", *flags(topology="replicas"))
    assert outcome.code == 0 and "enp1s0f1np1 has arp_ignore 0, not 1" in outcome.text, outcome.text
    assert [command for node, command in outcome.commands if "systemd-sysctl" in command]


def test_rails_do_not_move_to_another_port_when_their_cable_is_out(tmp_path: Path) -> None:
    states = as_planned(topology="replicas")
    for links in (state["links"] for state in states):
        for rail in list(links):
            links[rail.replace("f0np0", "f1np1")] = links[rail] | {"addresses": []}
            links[rail]["carrier"] = False
    outcome = deploy(tmp_path, states, "-y", *flags(topology="replicas"))
    assert outcome.refused and outcome.commands == []
    assert "the rail enp1s0f0np0 has no carrier" in outcome.text


@pytest.mark.parametrize(
    ("kept", "said"),
    [
        ({"kept": False}, "the network's old files are in force"),
        ({"kept": False, "waiting": True}, "the change of the network was not made on the node. Run the deploy again"),
    ],
)
def test_a_change_of_the_network_that_is_not_in_force_ends_the_deploy(
    tmp_path: Path, kept: dict[str, bool], said: str
) -> None:
    states = as_planned(topology="replicas")
    del states[1]["files"][NETPLAN]
    programs = {"network.rails:keep": {"problems": [], **kept}}
    outcome = deploy(tmp_path, states, "-y", *flags(topology="replicas"), programs=programs)
    assert outcome.refused
    assert said in outcome.text and "Traceback" not in outcome.text


def test_one_changed_file_is_written_again_alone(tmp_path: Path) -> None:
    states = as_planned(topology="cluster")
    states[1]["files"]["/etc/tandem/engine/start.sh"]["sha256"] = "edited by hand"
    outcome = deploy(tmp_path, states, "-y")
    assert outcome.code == 0, outcome.text
    (only,) = outcome.commands
    assert only[0] == "spark-2" and "/etc/tandem/engine/start.sh" in only[1]


def test_what_does_not_belong_to_the_plan_is_removed(tmp_path: Path) -> None:
    states = as_planned(topology="cluster")
    states[0]["files"]["/etc/tandem/engine/old.sh"] = {"sha256": "", "mode": "644"}
    states[1]["services"]["strays"] = ["tandem-old"]
    outcome = deploy(tmp_path, states, "-y")
    outcome.position(1, "rm /etc/tandem/engine/old.sh")
    outcome.position(2, "docker rm --force tandem-old")


def test_a_rail_that_lost_its_mtu_is_repaired(tmp_path: Path) -> None:
    states = as_planned(topology="cluster")
    states[1]["links"]["enp1s0f0np0"]["mtu"] = 1500
    outcome = deploy(tmp_path, states, "--dry")
    assert "enp1s0f0np0 has MTU 1500, not 9000" in outcome.text


def test_dry_and_diff_tell_what_would_change_and_change_nothing(tmp_path: Path) -> None:
    states = as_planned(topology="cluster")
    del states[0]["files"][NETPLAN]
    outcome = deploy(tmp_path, states, "--dry", "--diff")
    assert outcome.code == 0, outcome.text
    assert NETPLAN in outcome.text and "+       mtu: 9000" in outcome.text
    assert outcome.commands == []


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"topolgy": "solo"}, ["no knob is named `topolgy`", "did you mean `topology`?"]),
        ({"topology": "duo"}, ["topology=duo", "solo, cluster, replicas"]),
        ({"recipe": "nemotron"}, ["recipe=nemotron: no such recipe"]),
        ({"executor": "dask"}, ["executor=dask"]),
    ],
    ids=lambda value: str(value)[:30],
)
def test_a_mistake_is_one_message_and_no_change(tmp_path: Path, changes: dict[str, str], said: list[str]) -> None:
    outcome = deploy(tmp_path, as_planned(topology="cluster"), "-y", *flags(**changes))
    assert outcome.refused
    for words in said:
        assert words in outcome.text
    assert "Traceback" not in outcome.text
    assert outcome.commands == []


def test_findings_of_all_nodes_come_in_one_table(tmp_path: Path) -> None:
    plan = planned(**RAY)
    ports = [{"port": 26003, "address": "*", "process": "nginx", "pid": "7", "ours": False}]
    states = [fresh(plan, name) for name in NAMES]
    outcome = deploy(tmp_path, states, "-y", *flags(**RAY), kernel="7.0.0-1019-nvidia", ports=ports)
    assert outcome.refused
    assert outcome.text.count("port 26003 is held by nginx") == 2
    assert outcome.text.count("runs the kernel 7.0.0-1019-nvidia") == 2
    assert "Traceback" not in outcome.text
    assert outcome.commands == []


@pytest.mark.parametrize(
    ("topology", "serves", "is_told"), [("solo", False, True), ("cluster", False, False), ("solo", True, False)]
)
def test_a_new_plan_that_published_tables_are_clearly_against_says_so(
    tmp_path: Path, topology: str, serves: bool, is_told: bool
) -> None:
    states = as_planned(topology=topology)
    if not serves:
        states = [{**state, "served": ""} for state in states]
    outcome = deploy(tmp_path, states, "--dry", *flags(topology=topology))
    assert outcome.code == 0, outcome.text
    assert ("topology=solo is behind at every load" in outcome.text) == is_told


def test_least_busy_is_accepted_with_the_reason_against_it(tmp_path: Path) -> None:
    changes = {"topology": "replicas", "routing": "least-busy"}
    outcome = deploy(tmp_path, as_planned(**changes), "-y", *flags(**changes))
    assert outcome.code == 0
    assert "chooses an engine before it counts the request" in outcome.text


def test_a_limited_deploy_is_refused(tmp_path: Path) -> None:
    outcome = deploy(tmp_path, as_planned(topology="cluster"), "-y", "--limit", NAMES[0])
    assert outcome.refused
    assert "leave out --limit" in outcome.text


def test_a_recipe_that_its_image_does_not_understand_is_refused_with_all_its_faults(tmp_path: Path) -> None:
    recipe = tmp_path / "mine.yaml"
    shipped = (ROOT / "files/recipes/nemotron-3-super-nvfp4-marlin.yaml").read_text()
    wrong = shipped.replace("moe-backend: marlin", "moe-backend: marlinn").replace("nemotron_v3", "super_v3")
    recipe.write_text(wrong.replace("  VLLM_MARLIN_USE", "  VLLM_NVFP4_MOE_BACKEND: marlin\n  VLLM_MARLIN_USE"))
    outcome = deploy(tmp_path, as_planned(topology="cluster"), "-y", *flags(recipe=str(recipe)))
    assert outcome.refused
    for said in ("reads no `VLLM_NVFP4_MOE_BACKEND`", "knows no `marlinn`", "`super_v3` is in no release"):
        assert said in outcome.text
    assert outcome.commands == []


FOREIGN = """\
recipe_version: "1"
name: Something
model: org/model
container: vllm-node
command: vllm serve org/model --gpu-memory-utilization 0.8
"""


def foreign(tmp_path: Path, more: str = "") -> str:
    recipe = tmp_path / "foreign.yaml"
    recipe.write_text(FOREIGN + more)
    return str(recipe)


def test_a_recipe_without_a_revision_is_refused_with_today_s(tmp_path: Path) -> None:
    data = flags(topology="solo", recipe=foreign(tmp_path))
    outcome = deploy(tmp_path, as_planned(topology="solo"), "-y", *data, main={"org/model": "d" * 40})
    assert outcome.refused and outcome.commands == [] and "Traceback" not in outcome.text
    assert "names no revision of org/model" in outcome.text
    assert f'model_revision = "{"d" * 40}" in group_data/all.py is what `main` is' in outcome.text


def test_a_recipe_of_eugr_s_is_deployed_with_a_revision(tmp_path: Path) -> None:
    changes = {"topology": "solo", "recipe": foreign(tmp_path), "model_revision": "d" * 40}
    outcome = deploy(tmp_path, as_planned(**changes), "-y", *flags(**changes))
    assert outcome.code == 0, outcome.text
    assert outcome.commands == []
    assert "the image `vllm-node` is not pinned by a digest" in outcome.text


def test_a_revision_of_a_recipe_that_has_its_own_is_refused(tmp_path: Path) -> None:
    outcome = deploy(tmp_path, as_planned(topology="solo"), "-y", *flags(topology="solo", model_revision="d" * 40))
    assert outcome.refused and "has its own" in outcome.text and "clear model_revision" in outcome.text


def test_a_mod_that_is_not_here_is_refused(tmp_path: Path) -> None:
    data = flags(topology="solo", recipe=foreign(tmp_path, "mods: [mods/fix-it]\n"), model_revision="d" * 40)
    outcome = deploy(tmp_path, as_planned(topology="solo"), "-y", *data)
    assert outcome.refused and outcome.commands == []
    assert "the mod `mods/fix-it` is not here" in outcome.text


def test_what_the_image_has_told_before_is_what_counts(tmp_path: Path) -> None:
    image = planned(topology="solo").models[0].image.local
    told = {image: {"version": "0.17.1", "flags": {"dtype": {"choices": None}}}}
    outcome = deploy(tmp_path, as_planned(topology="solo"), "-y", *flags(topology="solo"), vocabulary=told)
    assert outcome.refused and outcome.commands == []
    assert "vLLM 0.17.1 (the image) has no flag `--trust-remote-code`" in outcome.text


def test_a_cache_that_root_has_made_is_told_with_the_remedy(tmp_path: Path) -> None:
    place = "/home/spark/.cache/huggingface/hub"
    outcome = deploy(tmp_path, as_planned(topology="solo"), "-y", *flags(topology="solo"), foreign=[place])
    assert outcome.code == 0
    assert f'sudo chown -R "$USER": {place}' in outcome.text


def test_weights_that_are_in_the_store_are_held_against_the_memory(tmp_path: Path) -> None:
    changes = {"topology": "solo", "recipe": foreign(tmp_path), "model_revision": "d" * 40}
    states = as_planned(**changes)
    (only,) = states[0]["models"].values()
    only["files"] = {"model-1.safetensors": {"size": 150 << 30, "blob": "b"}}
    outcome = deploy(tmp_path, states, "-y", *flags(**changes))
    assert outcome.refused and outcome.commands == []
    assert "150 GiB of weights on each node do not fit a GB10's 119 GiB" in outcome.text


def test_tensorrt_llm_in_a_cluster_is_refused(tmp_path: Path) -> None:
    data = flags(topology="cluster", recipe="nemotron-3-super-nvfp4-trtllm")
    outcome = deploy(tmp_path, as_planned(topology="solo"), "-y", *data)
    assert outcome.refused and "runs in: solo, replicas" in outcome.text


@pytest.mark.parametrize("answer", [{"sudo": False}, {"python": False}])
def test_a_head_that_can_t_be_surveyed_is_a_finding_and_no_traceback(tmp_path: Path, answer: dict[str, bool]) -> None:
    outcome = deploy(tmp_path, as_planned(topology="solo"), "-y", *flags(topology="solo"), only=answer)
    assert outcome.refused and outcome.commands == [] and "Traceback" not in outcome.text
    assert "sudo wants a password" in outcome.text or "has no python3" in outcome.text


def test_a_draft_without_a_revision_is_refused_with_the_knob_that_pins_it(tmp_path: Path) -> None:
    file = tmp_path / "drafting.yaml"
    file.write_text(FOREIGN.replace("vllm serve org/model", "vllm serve org/model --spec-model org/draft"))
    changes = {"topology": "solo", "recipe": str(file), "model_revision": "d" * 40}
    outcome = deploy(tmp_path, as_planned(**changes), "-y", *flags(**changes), main={"org/draft": "e" * 40})
    assert outcome.refused and outcome.commands == [] and "Traceback" not in outcome.text
    assert "names no revision of org/draft" in outcome.text
    pin = json.dumps({"org/draft": "e" * 40})
    assert f"model_revisions = {pin} in group_data/all.py is what `main` is" in outcome.text
    pinned = [*flags(**changes), "--data", f"model_revisions={pin}"]
    as_it_is = as_planned(**changes, model_revisions={"org/draft": "e" * 40})
    done = deploy(tmp_path, as_it_is, "-y", *pinned)
    assert done.code == 0 and done.commands == [], done.text
