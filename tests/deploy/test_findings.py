"""What a deploy refuses before it changes anything, and what it only says."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.deploy.fake import NAMES, RAY, as_planned, deploy, flags, fresh, planned


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


def test_a_cache_that_root_has_made_is_told_with_the_remedy(tmp_path: Path) -> None:
    place = "/home/spark/.cache/huggingface/hub"
    outcome = deploy(tmp_path, as_planned(topology="solo"), "-y", *flags(topology="solo"), foreign=[place])
    assert outcome.code == 0
    assert f'sudo chown -R "$USER": {place}' in outcome.text


@pytest.mark.parametrize("answer", [{"sudo": False}, {"python": False}])
def test_a_head_that_can_t_be_surveyed_is_a_finding_and_no_traceback(tmp_path: Path, answer: dict[str, bool]) -> None:
    outcome = deploy(tmp_path, as_planned(topology="solo"), "-y", *flags(topology="solo"), only=answer)
    assert outcome.refused and outcome.commands == [] and "Traceback" not in outcome.text
    assert "sudo wants a password" in outcome.text or "has no python3" in outcome.text
