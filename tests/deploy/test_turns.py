"""Replicas are renewed one at a time, and one that serves nobody waits for no turn."""

from __future__ import annotations

from pathlib import Path

from operations.paths import ENGINE
from tests.deploy.decided import decided, start, stop
from tests.deploy.fake import NAMES, START, STOP, as_planned, deploy, flags, planned


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
