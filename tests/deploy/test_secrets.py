"""Whose secrets are and who may read them, in whole deploys."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

from operations.paths import LITELLM, PROXY_KEY
from tests.deploy.fake import as_planned, deploy

CLUSTER = ("-y", "--data", "topology=cluster")


def states(**modes: Any) -> list[dict[str, Any]]:
    """Two nodes as planned, but for what the first one's look says of secrets."""
    found = as_planned(topology="cluster")
    found[0]["modes"] = {"wrong": [], "refused": [], **modes}
    return found


def test_what_is_tandems_is_put_right_with_a_line_that_says_so(tmp_path: Path) -> None:
    outcome = deploy(tmp_path, states(wrong=[f"{PROXY_KEY} has mode 644, not 600"]), *CLUSTER)
    assert outcome.code == 0, outcome.text
    assert f"{PROXY_KEY} has mode 644, not 600: put right" in outcome.text
    assert '"mend": true' in outcome.text
    assert outcome.commands == []


def test_what_stays_wrong_ends_the_deploy(tmp_path: Path) -> None:
    left = {"wrong": [f"{PROXY_KEY} has mode 644, not 600"], "refused": []}
    outcome = deploy(tmp_path, states(**left), *CLUSTER, programs={"secret.modes": left})
    assert outcome.code != 0
    assert f"{PROXY_KEY} has mode 644, not 600, and can't be put right" in outcome.text
    assert "Traceback" not in outcome.text


def test_what_is_the_owner_s_is_refused_before_the_first_change(tmp_path: Path) -> None:
    remedy = "sudo chown root: /etc && sudo chmod go-w /etc"
    outcome = deploy(tmp_path, states(refused=[["/etc has mode 777", remedy]]), *CLUSTER)
    assert outcome.code != 0
    assert "/etc has mode 777" in outcome.text and remedy in outcome.text
    assert outcome.commands == [] and "Traceback" not in outcome.text


def test_each_litellm_starts_with_what_its_user_may_read(tmp_path: Path) -> None:
    """One of before wrote as root what keys have used, until it was stopped."""
    found = states()
    for unit in LITELLM:
        found[0]["services"]["units"][unit]["spec"] = "another"
    outcome = deploy(tmp_path, found, *CLUSTER)
    assert outcome.code == 0, outcome.text
    words = "|".join(f"systemctl (stop|start --no-block) {unit}" for unit in LITELLM)
    done = [match[0] for match in re.finditer(f'"mend": true|{words}', outcome.text)]
    a, b = LITELLM
    assert done[:6] == [
        *(f"systemctl stop {a}", '"mend": true', f"systemctl start --no-block {a}"),
        *(f"systemctl stop {b}", '"mend": true', f"systemctl start --no-block {b}"),
    ]


def test_a_node_as_planned_is_not_touched(tmp_path: Path) -> None:
    outcome = deploy(tmp_path, states(), *CLUSTER)
    assert outcome.code == 0 and '"mend": true' not in outcome.text, outcome.text
