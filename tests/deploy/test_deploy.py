"""What a whole deploy does to nodes in a given state, and in which order."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from operations.paths import ENGINE, NETPLAN
from tests.deploy.fake import NAMES, RAY, START, STOP, as_planned, deploy, flags, fresh, planned

EVERY = [
    {"topology": "solo"},
    RAY,
    {"topology": "cluster", "executor": "mp"},
    {"topology": "cluster", "executor": "mp", "fallback": "solo"},
    {"topology": "replicas"},
]


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
    # With `-y` pyinfra does not look beforehand.
    assert "nothing would change" not in deploy(tmp_path, states, "--dry", "-y", *flags(topology="cluster")).text
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


def test_to_solo_the_worker_s_engine_is_removed(tmp_path: Path) -> None:
    outcome = deploy(tmp_path, as_planned(topology="cluster"), "-y", *flags(topology="solo"))
    assert outcome.code == 0, outcome.text
    outcome.position(2, "systemctl --no-reload disable --now --quiet tandem-engine.service")
    outcome.position(2, "rm -rf /etc/systemd/system/tandem-engine.service /run/systemd/system/tandem-engine.service.d")
    assert not [command for _, command in outcome.commands if "rm" in command.split() and "hub" in command]


def test_the_links_of_a_unit_follow_its_file(tmp_path: Path) -> None:
    states = as_planned(topology="solo")
    states[0]["files"]["/etc/systemd/system/tandem-engine.service"]["sha256"] = "wanted by less"
    outcome = deploy(tmp_path, states, "-y", *flags(topology="solo"))
    assert outcome.code == 0, outcome.text
    reenable = outcome.position(1, "systemctl reenable --quiet tandem-engine.service")
    assert outcome.position(1, "systemctl daemon-reload") < reenable


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


def test_dry_and_diff_tell_what_would_change_and_change_nothing(tmp_path: Path) -> None:
    states = as_planned(topology="cluster")
    del states[0]["files"][NETPLAN]
    outcome = deploy(tmp_path, states, "--dry", "--diff")
    assert outcome.code == 0, outcome.text
    assert NETPLAN in outcome.text and "+       mtu: 9000" in outcome.text
    assert outcome.commands == []
