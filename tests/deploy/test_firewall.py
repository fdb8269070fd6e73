"""When Tandem's firewall is loaded, put right and taken away, in whole deploys."""

from __future__ import annotations

from pathlib import Path

from operations.paths import FIREWALL, FORMER_FIREWALL
from tests.deploy.fake import NAMES, as_planned, deploy, fresh, planned
from tests.plan.samples import survey

RAISE = "systemctl reload tandem-firewall"
START = "systemctl start --no-block tandem-engine.service"


def test_it_is_in_force_before_an_engine_starts_and_after_the_old_one_has_stopped(tmp_path: Path) -> None:
    plan = planned(topology="replicas")
    outcome = deploy(tmp_path, [fresh(plan, name) for name in NAMES], "-y", "--data", "topology=replicas")
    assert outcome.code == 0, outcome.text
    for node in (1, 2):
        assert outcome.position(node, "tandem.nft") < outcome.position(node, RAISE) < outcome.position(node, START)


def test_rules_of_an_older_wiring_let_the_new_rails_in_before_they_are_proven(tmp_path: Path) -> None:
    found = as_planned(topology="cluster")
    found[0]["firewall"]["inside"] = ["lo", "enp1s0f0np0"]
    found[1]["firewall"]["inside"] = ["lo", "enp1s0f0np0", "enP2p1s0f0np0"]
    outcome = deploy(tmp_path, found, "-y", "--data", "topology=cluster")
    assert outcome.code == 0, outcome.text
    assert [ran for _, ran in outcome.commands if "nft add" in ran] == [
        "nft add element inet tandem inside '{ \"enP2p1s0f0np0\" }'"
    ]
    outcome.position(1, "nft add element")
    names = ("Firewall | let in", "Fabric | full frames")
    steps = [outcome.text.index(f"Starting operation: {name}") for name in names]
    assert steps == sorted(steps)


def test_that_of_a_solo_comes_when_the_cluster_has_stopped_and_goes_where_nothing_is_left(tmp_path: Path) -> None:
    outcome = deploy(tmp_path, as_planned(topology="cluster"), "-y", "--data", "topology=solo")
    assert outcome.code == 0, outcome.text
    assert outcome.position(1, "systemctl stop tandem-engine.service") < outcome.position(1, RAISE)
    gone = outcome.position(2, "systemctl --no-reload disable --now --quiet tandem-firewall.service")
    assert outcome.position(2, "systemctl --no-reload disable --now --quiet tandem-engine.service") < gone
    assert gone == outcome.position(2, "systemctl stop tandem.slice")


def test_what_somebody_has_changed_is_said_and_put_right_and_nothing_else(tmp_path: Path) -> None:
    found = as_planned(topology="cluster")
    found[1]["firewall"] = {"problem": "Tandem's firewall is not in force: nftables has no table `tandem`"}
    outcome = deploy(tmp_path, found, "-y", "--data", "topology=cluster")
    assert outcome.code == 0, outcome.text
    assert "Tandem's firewall is not in force: nftables has no table `tandem`" in outcome.text
    ((node, command),) = outcome.commands
    assert node == "spark-2" and RAISE in command


def test_a_unit_that_will_not_start_at_boot_is_put_right(tmp_path: Path) -> None:
    found = as_planned(topology="cluster")
    found[0]["services"]["units"][FIREWALL]["UnitFileState"] = "disabled"
    outcome = deploy(tmp_path, found, "-y", "--data", "topology=cluster")
    ((node, command),) = outcome.commands
    assert node == "spark-1" and "systemctl enable --quiet tandem-firewall" in command


def test_a_node_that_can_t_tell_groups_is_named_in_a_cluster(tmp_path: Path) -> None:
    firewall = {"nft": True, "groups": False, "driver": "systemd"}
    plan = planned(topology="cluster")
    found = [fresh(plan, name) for name in NAMES]
    outcome = deploy(tmp_path, found, "-y", "--dry", "--data", "topology=cluster", firewall=firewall)
    assert (
        "spark-2: its kernel or its control groups (cgroup v2 is needed) don't let Tandem's firewall know"
        in outcome.text
    )


def test_without_nft_nothing_is_changed(tmp_path: Path) -> None:
    assert survey()["firewall"]["nft"]
    found = as_planned(topology="cluster")
    outcome = deploy(tmp_path, found, "-y", firewall={"nft": False, "groups": False, "driver": "systemd"})
    assert outcome.refused and outcome.commands == []
    assert "sudo apt install nftables" in outcome.text


def test_down_takes_them_away_to_the_end(tmp_path: Path) -> None:
    enabled = {"units": {unit: {"UnitFileState": "enabled"} for unit in (*as_planned()[0]["services"]["units"],)}}
    asked = {"file": "operations/verbs/down.py", "programs": {"unit.services": enabled}}
    outcome = deploy(tmp_path, as_planned(), "-y", **asked)
    assert outcome.code == 0, outcome.text
    for node in (1, 2):
        last = outcome.position(node, "systemctl --no-reload disable --now --quiet tandem-firewall.service")
        assert outcome.position(node, "systemctl --no-reload disable --now --quiet tandem-guard.service") < last
        assert last == outcome.position(node, "systemctl stop tandem.slice")


def test_one_under_its_former_name_is_in_force_until_this_one_is_and_goes_then(tmp_path: Path) -> None:
    """Its stop would take the table away: its script means the new one's by then, as it does for engines that wait."""
    plan = planned(topology="replicas")
    found = [fresh(plan, name) for name in NAMES]
    for state in found:
        state["services"]["units"][FORMER_FIREWALL] = {
            "UnitFileState": "enabled",
            "ActiveState": "active",
            "SubState": "exited",
        }
    outcome = deploy(tmp_path, found, "-y", "--data", "topology=replicas")
    assert outcome.code == 0, outcome.text
    for node in (1, 2):
        handed = outcome.position(node, ">/etc/tandem/walls/walls.sh")
        gone = outcome.position(node, "disable --now --quiet tandem-walls.service")
        assert outcome.position(node, RAISE) < handed < outcome.position(node, START) < gone


def test_one_under_its_former_name_goes_harmless_behind_a_deploy_that_was_broken_off(tmp_path: Path) -> None:
    """This one is in force already; the former one's own stop would still take the table away."""
    found = as_planned(topology="replicas")
    for state in found:
        state["services"]["units"][FORMER_FIREWALL] = {"UnitFileState": "enabled", "ActiveState": "active"}
    outcome = deploy(tmp_path, found, "-y", "--data", "topology=replicas")
    assert outcome.code == 0, outcome.text
    for node in (1, 2):
        handed = outcome.position(node, ">/etc/tandem/walls/walls.sh")
        assert handed < outcome.position(node, "disable --now --quiet tandem-walls.service")
