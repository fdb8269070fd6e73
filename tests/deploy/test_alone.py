"""A node of a cluster that serves alone, and what a deploy makes of it."""

from __future__ import annotations

from pathlib import Path

import pytest

from operations.paths import ALONE, ALONE_SINCE, ENGINE
from tests.deploy.fake import START, STOP, as_planned, deploy, flags


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
