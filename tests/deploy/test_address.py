"""When the virtual address is taken and given back, and what stops a deploy before it is, in whole deploys."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from operations.paths import ADDRESS, PROXY
from operations.paths import OFFICE as OFFICE_UNIT
from tests.deploy.fake import NAMES, Outcome, as_planned, deploy, fresh, look, planned

WANTED = "10.0.0.50"
START = f"systemctl start --no-block {ADDRESS}.service"
OFFICE = {
    "device": "enP7s7",
    "address": "10.0.0.11/24",
    "macs": ["aa:00:00:00:00:01"],
    "addresses": {"10.0.0.11": "enP7s7"},
}
FREE: dict[str, Any] = {"mac": "", "vrids": {}}


def replicas(tmp_path: Path, states: list[dict[str, Any]], claimed: dict[str, Any] = FREE) -> Outcome:
    data = ["--data", "topology=replicas", "--data", f"proxy_address={WANTED}"]
    return deploy(tmp_path, states, "-y", *data, office=OFFICE, claimed=claimed)


def test_each_node_that_serves_stands_by_for_it_behind_its_proxy(tmp_path: Path) -> None:
    plan = planned(topology="replicas")
    outcome = replicas(tmp_path, [fresh(plan, name) for name in NAMES])
    assert outcome.code == 0, outcome.text
    for node in (1, 2):
        proxy = outcome.position(node, f"systemctl start --no-block {PROXY}.service")
        assert proxy < outcome.position(node, START)


def test_an_address_of_another_host_s_changes_nothing(tmp_path: Path) -> None:
    plan = planned(topology="replicas")
    taken = {"mac": "bb:00:00:00:00:01", "vrids": {"50": ["10.0.0.7"]}}
    outcome = replicas(tmp_path, [fresh(plan, name) for name in NAMES], taken)
    told = " ".join(outcome.text.split())
    assert outcome.code != 0 and outcome.commands == []
    assert "is held by another host" in told and "10.0.0.7 uses VRRP's id 50" in told
    assert "Traceback" not in told


def test_a_survey_without_an_office_interface_is_a_finding_and_no_traceback(tmp_path: Path) -> None:
    plan = planned(topology="replicas")
    outcome = deploy(
        tmp_path,
        [fresh(plan, name) for name in NAMES],
        *("-y", "--data", "topology=replicas", "--data", f"proxy_address={WANTED}"),
    )
    assert outcome.code != 0 and outcome.commands == []
    assert "no IPv4 interface is known" in " ".join(outcome.text.split()) and "Traceback" not in outcome.text


def test_without_the_knob_it_is_given_back(tmp_path: Path) -> None:
    before = as_planned(topology="replicas")
    for state in before:
        state["services"]["units"][ADDRESS] = {"ActiveState": "active", "UnitFileState": "enabled", "address": WANTED}
    outcome = deploy(tmp_path, before, "-y", "--data", "topology=replicas")
    assert outcome.code == 0, outcome.text
    for node in (1, 2):
        assert outcome.position(node, f"systemctl --no-reload disable --now --quiet {ADDRESS}.service") >= 0


def test_a_solo_leaves_it_to_the_head(tmp_path: Path) -> None:
    solo = planned(topology="solo")
    before = [look(solo, NAMES[0]), look(solo, NAMES[1])]
    before[1]["services"]["units"][ADDRESS] = {"ActiveState": "active", "UnitFileState": "enabled", "address": WANTED}
    data = ["--data", "topology=solo", "--data", f"proxy_address={WANTED}"]
    outcome = deploy(tmp_path, before, "-y", *data, office=OFFICE, claimed=FREE)
    assert outcome.code == 0, outcome.text
    assert outcome.position(2, f"systemctl --no-reload disable --now --quiet {ADDRESS}.service") >= 0
    assert outcome.position(1, START) >= 0


def test_what_follows_the_addresses_goes_behind_the_proxy_that_reads_it(tmp_path: Path) -> None:
    """Until then the proxy of before would find nothing to start from."""
    before = as_planned(topology="solo")
    units = before[0]["services"]["units"]
    units[OFFICE_UNIT] = {"ActiveState": "active", "UnitFileState": "enabled"}
    units[PROXY]["spec"] = "another bind"
    outcome = deploy(tmp_path, before, "-y", "--data", "topology=solo")
    assert outcome.code == 0, outcome.text
    gone = outcome.position(1, f"systemctl --no-reload disable --now --quiet {OFFICE_UNIT}.service")
    assert 0 <= outcome.position(1, f"systemctl start --no-block {PROXY}.service") < gone
