"""What a deploy hands over to pages: what `tandem bench` measured, where a page is started, and else nothing."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from operations.paths import PAGE
from tests.deploy.fake import NAMES, Outcome, as_planned, deploy, flags

HANDED = " monitoring.handed "
KNOBS = {"monitoring": "metrics", "topology": "replicas"}


@pytest.fixture
def states() -> list[dict[str, Any]]:
    """Two nodes as a deploy has left them, each with a page."""
    return as_planned(**KNOBS)


def run(folder: Path, states: list[dict[str, Any]], **more: Any) -> Outcome:
    return deploy(folder, states, "-y", *flags(**KNOBS), **more)


def test_a_deploy_with_nothing_to_change_hands_nothing_over(tmp_path: Path, states: list[dict[str, Any]]) -> None:
    outcome = run(tmp_path, states, failing=dict.fromkeys(NAMES, ("monitoring.handed",)))
    assert outcome.code == 0 and outcome.commands == [], outcome.text
    assert HANDED not in outcome.text and "the page does not say" not in outcome.text


def test_a_page_that_is_started_is_told_first(tmp_path: Path, states: list[dict[str, Any]]) -> None:
    for state in states:
        state["services"]["units"][PAGE]["spec"] = "of another plan"
    outcome = run(tmp_path, states, programs={"monitoring.handed": {"page": True}})
    assert outcome.code == 0, outcome.text
    assert "the page does not say" not in outcome.text
    for node in ("spark-1", "spark-2"):
        said = [line for line in outcome.text.splitlines() if node in line]
        asked = next(index for index, line in enumerate(said) if HANDED in line)
        stopped, started = (
            next(i for i, line in enumerate(said) if f"{word} {PAGE}" in line) for word in ("stop", "--no-block")
        )
        assert stopped < asked < started


@pytest.mark.parametrize(
    ("more", "why"),
    [
        (
            {"programs": {"monitoring.handed": {"page": True, "problem": "/var: No space left on device"}}},
            "/var: No space left",
        ),
        ({"failing": dict.fromkeys(NAMES, ("monitoring.handed",))}, "this node did not take it"),
    ],
)
def test_what_can_not_be_handed_over_is_said_and_the_page_starts(
    tmp_path: Path, states: list[dict[str, Any]], more: dict[str, Any], why: str
) -> None:
    for state in states:
        state["services"]["units"][PAGE] = {}
    outcome = run(tmp_path, states, **more)
    assert outcome.code == 0 and "Traceback" not in outcome.text, outcome.text
    assert f"the page does not say what `tandem bench` measured: {why}" in outcome.text
    for node in (1, 2):
        assert outcome.position(node, f"start --no-block {PAGE}")
