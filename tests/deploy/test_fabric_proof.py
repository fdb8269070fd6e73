"""The proof of the fabric in a deploy: what it asks the nodes for, and the one line that it makes of their answers."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest

from tests.deploy.fake import NAMES, as_planned, deploy, flags

WANTED = {"topology": "replicas"}
FINE: dict[str, Any] = {"problems": [], "kept": True}


def run(tmp_path: Path, **told: Any) -> Any:
    states = as_planned(**WANTED)
    by_node = {NAMES[1]: {"network.proof:prove": FINE | told}}
    return deploy(tmp_path, states, "-y", *flags(**WANTED), by_node=by_node)


@pytest.mark.parametrize(
    ("told", "said"),
    [
        (
            {"strangers": ["enp1s0f0np0 -> spark-1 (192.168.177.11): aa answers, its netdev is bb"]},
            "another netdev answers on the fabric: enp1s0f0np0 -> spark-1 (192.168.177.11): aa answers, its netdev is "
            "bb. Run the deploy again, which sets arp_ignore",
        ),
        (
            {"shut": {"by": "ufw", "device": "enp1s0f0np0", "remedy": "sudo ufw allow in on enp1s0f0np0"}},
            "ufw lets no TCP connection in over enp1s0f0np0. On @fake/spark-2: sudo ufw allow in on enp1s0f0np0",
        ),
        (
            {"silent": ["enp1s0f0np0 -> spark-1 (192.168.177.11): no TCP connection to port 26030"]},
            "frames get through and connections don't: enp1s0f0np0 -> spark-1 (192.168.177.11): no TCP connection to "
            "port 26030. A firewall keeps them out",
        ),
    ],
    ids=["strangers", "shut", "silent"],
)
def test_what_the_proof_finds_ends_the_deploy_before_anything_is_copied(
    tmp_path: Path, told: dict[str, Any], said: str
) -> None:
    outcome = run(tmp_path, **told)
    assert outcome.refused and said in " ".join(outcome.text.split()), outcome.text
    assert "Traceback" not in outcome.text and outcome.commands == []


def test_each_node_is_told_the_other_s_macs_and_addresses(tmp_path: Path) -> None:
    outcome = run(tmp_path)
    assert outcome.code == 0, outcome.text
    asked = [json.loads(each) for each in re.findall(r'network\.proof:prove .*?(\{"peers".*?\})[\'"]', outcome.text)]
    asked.sort(key=lambda each: str(each["own"]))
    assert len(asked) == 2
    assert asked[0]["macs"] == {"192.168.177.12": "30:c5:99:00:01:00", "192.168.178.12": "30:c5:99:00:01:01"}
    assert asked[0]["own"] == {"enp1s0f0np0": "192.168.177.11", "enP2p1s0f0np0": "192.168.178.11"}
    assert asked[0]["peers"]["@fake/spark-2"] == [
        ["enp1s0f0np0", "192.168.177.12"],
        ["enP2p1s0f0np0", "192.168.178.12"],
    ]
    assert asked[0]["ports"] == [26030, 26299]


def test_a_door_that_is_shut_is_a_remark_and_rails_that_are_shut_a_refusal(tmp_path: Path) -> None:
    states = as_planned(**WANTED)
    said = "sudo ufw allow in on enP7s7 to any port 8000 proto tcp"
    door = {
        "device": "enP7s7",
        "own": "10.0.0.11/24",
        "peer": "10.0.0.1/24",
        "is_door": True,
        "by": "ufw",
        "remedy": said,
    }
    outcome = deploy(tmp_path, states, "-y", *flags(**WANTED), shut=[door])
    assert outcome.code == 0, outcome.text
    line = (
        "@fake/spark-2: ufw does not let 10.0.0.1 in to the proxy's port 8000 over enP7s7, nor other clients that no "
        f"rule of yours names: {said}"
    )
    assert line in " ".join(outcome.text.split())
    rail = door | {"device": "enp1s0f0np0", "own": "192.168.177.11/24", "is_door": False}
    refused = deploy(tmp_path, states, "-y", *flags(**WANTED), shut=[rail])
    assert refused.code == 1 and refused.commands == []
    assert "ufw lets no connection in over `enp1s0f0np0`" in refused.text and "Traceback" not in refused.text


def test_a_stranger_that_is_a_node_s_own_port_is_named(tmp_path: Path) -> None:
    line = "enp1s0f0np0 -> spark-1 (192.168.177.11): 30:c5:99:00:00:01 answers, its netdev is 30:c5:99:00:00:00"
    outcome = run(tmp_path, strangers=[line])
    assert "30:c5:99:00:00:01 (enP2p1s0f0np0 of @fake/spark-1) answers" in " ".join(outcome.text.split())
