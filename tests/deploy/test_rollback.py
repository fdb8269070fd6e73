"""The way back: offered, taken by hand, taken by itself, and refused where there is none."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from operations.plan.history import record
from operations.plan.places import ENGINE
from tests.deploy.fake import NAMES, Outcome, deploy, fresh, look, planned

DEAD = {
    "ok": False,
    "problem": "Connection refused",
    "log": ["ValueError: no such model"],
    "state": {"ActiveState": "failed", "NRestarts": "0"},
}


def served(*topologies: str) -> dict[str, Any]:
    """Plans that have served, newest last."""
    plans = [planned(topology=each) for each in topologies]
    return {"plans": [{**record(plan.knobs, plan.recipe), "when": "2026-01-02 03:04"} for plan in plans]}


def broken(tmp_path: Path, *arguments: str, before: tuple[str, ...] = ("solo",)) -> Outcome:
    """A deploy of a cluster whose engine ends at its start."""
    plan = planned(topology="cluster")
    states = [fresh(plan, name) for name in NAMES]
    return deploy(tmp_path, states, "-y", *arguments, programs={"probe": DEAD, "served": served(*before)})


def test_a_plan_that_does_not_come_up_names_the_way_back(tmp_path: Path) -> None:
    outcome = broken(tmp_path)
    assert outcome.code == 1
    assert "does not serve: its unit is failed" in outcome.text
    assert (
        "`make rollback` goes back to nemotron-3-super-nvfp4-marlin, solo, which served on 2026-01-02" in outcome.text
    )
    assert "Traceback" not in outcome.text


def test_knobs_of_one_run_are_part_of_the_way_back(tmp_path: Path) -> None:
    outcome = broken(tmp_path, "--data", "canary_deadline=20.0")
    assert '`make rollback DATA="canary_deadline=20.0"` goes back to' in outcome.text


def test_the_first_plan_of_all_has_no_way_back(tmp_path: Path) -> None:
    outcome = broken(tmp_path, before=())
    assert outcome.code == 1
    assert "rollback" not in outcome.text.split("does not serve")[1]


def test_rollback_auto_takes_it_when_the_deploy_is_over(tmp_path: Path) -> None:
    outcome = broken(tmp_path, "--data", "rollback=auto", before=("replicas", "solo"))
    assert outcome.code == 1
    said = outcome.text.split("rollback=auto: going back to nemotron-3-super-nvfp4-marlin, solo")
    # The second run is there, and fails as the first: this engine answers nobody. It does not go back any further.
    assert "going back to nemotron-3-super-nvfp4-marlin, solo" in "".join(said[1:])
    assert "does not come up either" in outcome.text
    assert "replicas, which served" not in outcome.text


def test_rollback_deploys_what_served_before_the_declared_plan(tmp_path: Path) -> None:
    plan = planned(topology="cluster")
    states = [look(plan, name) for name in NAMES]
    before = {"served": served("solo", "cluster")}
    outcome = deploy(tmp_path, states, "-y", "--data", "_rollback=1", programs=before)
    assert outcome.code == 0, outcome.text
    assert "going back to nemotron-3-super-nvfp4-marlin, solo, which served on 2026-01-02" in outcome.text
    assert outcome.position(1, f"systemctl stop {ENGINE}") < outcome.position(1, "engine.env")
    assert outcome.position(2, f"systemctl disable --now --quiet {ENGINE}")


def test_rollback_without_another_plan_is_refused(tmp_path: Path) -> None:
    plan = planned(topology="cluster")
    states = [look(plan, name) for name in NAMES]
    before = {"served": served("cluster")}
    outcome = deploy(tmp_path, states, "-y", "--data", "_rollback=1", programs=before)
    assert outcome.code == 1
    assert "no other plan has served yet" in outcome.text
    assert "Traceback" not in outcome.text
    assert outcome.commands == []
