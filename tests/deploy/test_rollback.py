"""The way back: offered, taken by hand, taken by itself, and refused where there is none."""

from __future__ import annotations

import shlex
import sys
from pathlib import Path
from typing import Any

import pytest

from operations.paths import ENGINE
from operations.plan.engines import ENGINES
from operations.plan.history import record
from operations.plan.plan import Plan
from operations.runner import rollback
from tests.deploy.fake import NAMES, Outcome, as_planned, contents_of, deploy, flags, fresh, look, planned

DEAD = {
    "ok": False,
    "problem": "Connection refused",
    "log": ["ValueError: no such model"],
    "state": {"ActiveState": "failed", "NRestarts": "0"},
}


def served(*topologies: str) -> dict[str, Any]:
    """Plans that have served, newest last; their images are on the head."""
    return past(*(planned(topology=each) for each in topologies))


def past(*plans: Plan) -> dict[str, Any]:
    """These plans have served, newest last; their images are on the head."""
    image = {"image": {"id": "sha256:1", "content": "c1", "architecture": "arm64"}, "replaced": False}
    return {
        "plans": [{**record(plan, contents_of(plan)), "when": "2026-01-02 03:04"} for plan in plans],
        "images": {name: image for plan in plans for name in contents_of(plan)},
    }


def broken(tmp_path: Path, *arguments: str, before: tuple[str, ...] = ("solo",)) -> Outcome:
    """A deploy of a cluster whose engine ends at its start."""
    plan = planned(topology="cluster")
    states = [fresh(plan, name) for name in NAMES]
    return deploy(tmp_path, states, "-y", *arguments, programs={"engine.probe": DEAD, "unit.served": served(*before)})


def test_a_plan_that_does_not_come_up_names_the_way_back(tmp_path: Path) -> None:
    outcome = broken(tmp_path)
    assert outcome.refused
    assert "does not serve: its unit is failed" in outcome.text
    way = f"`tandem rollback --inventory {tmp_path}/nodes.py` goes back to nemotron-3-super-nvfp4-auto, solo"
    assert way in outcome.text
    assert "Traceback" not in outcome.text


def test_knobs_of_one_run_are_part_of_the_way_back(tmp_path: Path) -> None:
    outcome = broken(tmp_path, "--data", "canary_deadline=20.0")
    assert f"`tandem rollback --inventory {tmp_path}/nodes.py canary_deadline=20.0` goes back to" in outcome.text


@pytest.mark.parametrize(
    ("argv", "words"),
    [
        ("-y inventory.py deploy.py", ""),
        ("-y ./inventory.py deploy.py", ""),
        ("-y desks/two.py deploy.py", " --inventory desks/two.py"),
        ("-y 'my desk.py' ./deploy.py --data a=1", " --inventory 'my desk.py' a=1"),
        ("inventory.py deploy.py --data a=1 --data=b=2", " a=1 b=2"),
        ("--data=b=2 two.py deploy.py -y", " --inventory two.py b=2"),
    ],
)
def test_the_way_back_is_of_the_same_desk(monkeypatch: pytest.MonkeyPatch, argv: str, words: str) -> None:
    monkeypatch.setattr(sys, "argv", ["pyinfra", *shlex.split(argv)])
    assert rollback._as_given() == words


def test_the_first_plan_of_all_has_no_way_back(tmp_path: Path) -> None:
    outcome = broken(tmp_path, before=())
    assert outcome.refused
    assert "rollback" not in outcome.text.split("does not serve")[1]


def test_rollback_auto_takes_it_when_the_deploy_is_over(tmp_path: Path) -> None:
    outcome = broken(tmp_path, "--data", "rollback=auto", before=("replicas", "solo"))
    assert outcome.refused
    said = outcome.text.split("rollback=auto: going back to nemotron-3-super-nvfp4-auto, solo")
    # The second run is there, and fails as the first: this engine answers nobody. It does not go back any further.
    assert "going back to nemotron-3-super-nvfp4-auto, solo" in "".join(said[1:])
    assert "does not come up either" in outcome.text
    assert "replicas, which served" not in outcome.text


def test_rollback_deploys_what_served_before_the_declared_plan(tmp_path: Path) -> None:
    states = as_planned(topology="cluster")
    before = {"unit.served": served("solo", "cluster")}
    outcome = deploy(tmp_path, states, "-y", "--data", "_rollback=1", programs=before)
    assert outcome.code == 0, outcome.text
    assert "going back to nemotron-3-super-nvfp4-auto, solo, which served on 2026-01-02" in outcome.text
    outcome.position(1, f"systemctl stop {ENGINE}")
    outcome.position(2, f"systemctl --no-reload disable --now --quiet {ENGINE}")


def test_rollback_without_another_plan_is_refused(tmp_path: Path) -> None:
    states = as_planned(topology="cluster")
    before = {"unit.served": served("cluster")}
    outcome = deploy(tmp_path, states, "-y", "--data", "_rollback=1", programs=before)
    assert outcome.refused
    assert "no other plan has served yet" in outcome.text
    assert "Traceback" not in outcome.text
    assert outcome.commands == []


def build_from(folder: Path, topology: str) -> Plan:
    """A plan whose engine's image is built from a folder."""
    return planned(topology=topology, engine_image_from=f"build:{folder}")


def test_rollback_takes_the_image_that_served_and_builds_none_from_an_edited_dockerfile(tmp_path: Path) -> None:
    (tmp_path / "Dockerfile").write_text("FROM one\n")
    one = build_from(tmp_path, "cluster")
    before = past(one)
    (name,) = [each for each in before["images"] if "/engine:" in each]
    states = [look(one, node) for node in NAMES]
    (tmp_path / "Dockerfile").write_text("FROM two\n")
    arguments = ["-y", "--data", f"engine_image_from=build:{tmp_path}", "--data", "_rollback=1"]
    outcome = deploy(tmp_path, states, *arguments, programs={"unit.served": before})
    assert outcome.code == 0, outcome.text
    # What served runs still, from the image that it was started from: nothing is to be done.
    assert outcome.commands == []
    assert "going back to" in outcome.text and "have changed since" not in outcome.text
    # On a head that has lost it nothing is done at all.
    for state in states:
        state["images"] = {}
    outcome = deploy(tmp_path, states, *arguments, programs={"unit.served": {**before, "images": {}}})
    assert outcome.refused
    assert f"({name}) is not on the head any more, and its source is not what it was then" in outcome.text
    assert "Traceback" not in outcome.text and outcome.commands == []


def test_no_way_back_is_promised_to_an_image_that_is_gone(tmp_path: Path) -> None:
    (tmp_path / "Dockerfile").write_text("FROM one\n")
    before = past(build_from(tmp_path, "solo"))
    (tmp_path / "Dockerfile").write_text("FROM two\n")
    plan = planned(topology="cluster")
    states = [fresh(plan, name) for name in NAMES]
    gone = {"engine.probe": DEAD, "unit.served": {**before, "images": {}}}
    outcome = deploy(tmp_path, states, "-y", programs=gone)
    assert outcome.refused
    assert "There is no way back" in outcome.text and "is not on the head any more" in outcome.text
    assert "`tandem rollback" not in outcome.text and "Traceback" not in outcome.text


def test_files_that_are_not_what_served_are_told_before_the_first_change(tmp_path: Path) -> None:
    states = as_planned(topology="cluster")
    before = served("solo", "cluster")
    files = before["plans"][0]["services"][NAMES[0]][ENGINE]["files"]
    files["/etc/tandem/engine/start.sh"] = "of another Tandem"
    outcome = deploy(tmp_path, states, "--dry", "--data", "_rollback=1", programs={"unit.served": before})
    assert outcome.code == 0, outcome.text
    assert "have changed since 2026-01-02 03:04 (tandem-engine: start.sh)" in outcome.text


def test_a_plan_that_differs_from_what_served_in_tandem_s_own_files_alone_says_so(tmp_path: Path) -> None:
    plan = planned(topology="cluster")
    states = [fresh(plan, name) for name in NAMES]
    before = served("cluster")
    before["plans"][0]["services"][NAMES[0]][ENGINE]["files"]["/etc/tandem/engine/start.sh"] = "as it was"
    outcome = deploy(tmp_path, states, "-y", programs={"engine.probe": DEAD, "unit.served": before})
    assert outcome.refused
    assert "what has changed since are Tandem's own files, or the nodes: tandem-engine: start.sh" in outcome.text
    assert "`tandem rollback" not in outcome.text


def test_an_archive_that_is_replaced_leaves_what_was_there_under_the_name_of_its_content(tmp_path: Path) -> None:
    changes = {"topology": "cluster", "engine_image_from": "archive:/srv/engine.tar"}
    plan = planned(**changes)
    states = [look(plan, name) for name in NAMES]
    (name,) = [each for each in contents_of(plan) if "/engine:" in each]
    states[0]["images"][name] = {**states[0]["images"][name], "replaced": True}
    states[0]["images"][name]["image"] = {**states[0]["images"][name]["image"], "content": "0123456789abcdef"}
    arguments = flags(**changes)
    outcome = deploy(tmp_path, states, "-y", *arguments)
    kept = outcome.position(1, f"docker tag {name} tandem/engine:0123456789ab")
    assert kept < outcome.position(1, "docker tag vllm/")


@pytest.mark.parametrize("has_served", [True, False])
def test_an_engine_that_has_served_under_another_plan_is_not_judged_again(tmp_path: Path, has_served: bool) -> None:
    before = planned(topology="solo")
    states = [look(before, name) for name in NAMES]
    line = {
        "seen": {ENGINES["vllm"].FORBIDDEN[0].pattern: "CUDA graph memory: -2 GiB"},
        "invocation": "i",
        "cursor": "c",
    }
    programs = {"unit.served": past(before) if has_served else served(), "unit.journal": line}
    outcome = deploy(
        tmp_path, states, "-y", "--data", "topology=solo", "--data", "canary_deadline=20.0", programs=programs
    )
    assert ("The engine is stopped" in outcome.text) is not has_served
    assert outcome.code == (0 if has_served else 1), outcome.text
