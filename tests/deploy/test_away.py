"""A node that does not answer: what a deploy and each verb do with the others. It is reached over ssh, where nobody
listens; the others are pyinfra's @fake nodes.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path

import pytest

from operations.paths import ENGINE
from operations.plan.history import record
from operations.plan.services import registry
from operations.verbs import report
from tests.deploy.fake import NAMES, OFF, Outcome, as_planned, deploy, fresh, look, planned

REFUSED = "does not answer (connection refused)"
ROW = {
    "unit": ENGINE,
    "state": "active (running)",
    "since": "Mon",
    "recipe": "r replicas",
    "image": "i",
    "model": "m",
    "health": "answers in 9 ms",
}
STATUS = {"rows": [ROW], "old_images": [], "topology": "replicas", "away": {"spark-2": "14:03:20"}}
MODEL = {"present": True, "problems": [], "files": {"a": {"size": 1, "blob": "b"}}, "proven": True, "path": "/m"}
AUDITED = {"module": "experts", "count": 2, "method": "NVFP4", "bytes": 8}
PROGRAMS = {
    "look.status": STATUS,
    "model.audit": {
        "rows": [{"module": "experts", "count": 2, "method": "NVFP4", "bytes": 8}],
        "total": 8,
        "quantised": 8,
    },
    "door.endpoint": {"url": "http://h:8000/v1", "key": "k", "model": "m"},
    "model.verify": {"models": [{**MODEL, "seconds": 0.1}]},
    "unit.old_images": {"images": [], "removed": [], "problems": []},
    "unit.services": {"units": {unit: {"UnitFileState": "enabled"} for unit in registry.to_tell()}},
}
#: Code for an inventory: of a node that refuses a connection nothing comes at all.
DARK = """
import errno
from operations.runner import reasons

reasons._DARK = (errno.ECONNREFUSED,)
"""


def verb(
    tmp_path: Path, name: str, *off: int, topology: str = "cluster", inventory: str = "", served: str = ""
) -> Outcome:
    """A verb with nodes that are off; `served`: the topology of the plan that has served, where nodes remember one."""
    plan = planned(topology=topology)
    plans = [record(planned(topology=served), {}) | {"when": "2026-11-24 03:00"}] if served else []
    states = [OFF if index in off else look(plan, node) for index, node in enumerate(NAMES)]
    data = ("--data", f"topology={topology}")
    file = f"operations/verbs/{name}.py"
    return deploy(
        tmp_path,
        states,
        "-y",
        *data,
        file=file,
        programs=PROGRAMS | {"unit.served": {"plans": plans}},
        inventory=inventory,
    )


def test_solo_deploys_with_the_other_node_off(tmp_path: Path) -> None:
    plan = planned(topology="solo")
    outcome = deploy(tmp_path, [fresh(plan, NAMES[0]), OFF], "-y", "--data", "topology=solo")
    assert outcome.code == 0, outcome.text
    outcome.position(1, "systemctl start --no-block tandem-engine.service")
    assert f"spark-2 {REFUSED}: this plan needs nothing of it; what an older plan has left there stays" in outcome.text


def test_solo_with_the_other_node_off_is_the_same_as_with_it_on(tmp_path: Path) -> None:
    plan = planned(topology="solo")
    outcome = deploy(tmp_path, [look(plan, NAMES[0]), OFF], "-y", "--data", "topology=solo")
    assert outcome.code == 0 and outcome.commands == []


@pytest.mark.parametrize("topology", ["cluster", "replicas"])
def test_a_plan_that_needs_the_node_is_refused_with_the_remedy(tmp_path: Path, topology: str) -> None:
    plan = planned(topology=topology)
    ports = [{"port": 8001, "address": "*", "process": "nginx", "pid": "7", "ours": False}]
    states = [fresh(plan, NAMES[0]), OFF]
    outcome = deploy(tmp_path, states, "-y", "--data", f"topology={topology}", ports=ports)
    assert outcome.refused and outcome.commands == [] and "Traceback" not in outcome.text
    assert REFUSED in outcome.text
    assert "or take it out of the inventory; topology=solo serves on @fake/spark-1 alone" in outcome.text
    # What is wrong with the node that answers comes in the same table.
    assert "port 8001 is held by nginx" in outcome.text


@pytest.mark.parametrize("topology", ["solo", "cluster"])
def test_without_the_head_nothing_is_deployed(tmp_path: Path, topology: str) -> None:
    plan = planned(topology=topology)
    outcome = deploy(tmp_path, [OFF, fresh(plan, NAMES[1])], "-y", "--data", f"topology={topology}")
    assert outcome.refused and outcome.commands == [] and "Traceback" not in outcome.text
    said = outcome.text.split("nothing was changed; this has to be put right first:")[1]
    assert f"spark-1  {REFUSED}" in said


def test_without_any_node_each_has_its_line(tmp_path: Path) -> None:
    outcome = deploy(tmp_path, [OFF, OFF], "-y")
    assert outcome.code == 3 and "Traceback" not in outcome.text
    assert outcome.text.count(REFUSED) == 2
    assert "pyinfra error: no node answers" in outcome.text


def test_a_limit_that_fits_no_node_is_refused(tmp_path: Path) -> None:
    outcome = deploy(tmp_path, [OFF, OFF], "-y", "--limit", "spark-3")
    assert outcome.refused and "leave no node of the inventory" in outcome.text


def test_an_inventory_without_nodes_is_refused(tmp_path: Path) -> None:
    outcome = deploy(tmp_path, [], "-y")
    assert outcome.code == 2 and "inventory  names no node" in outcome.text


def test_in_a_deploy_one_failure_still_stops_the_other_node(tmp_path: Path) -> None:
    plan = planned(topology="cluster")
    states = [fresh(plan, name) for name in NAMES]
    outcome = deploy(tmp_path, states, "-y", failing={NAMES[1]: ["network.proof:prove"]})
    assert outcome.refused and "Over 0% of hosts failed" in outcome.text
    assert not [command for _, command in outcome.commands if "systemctl" in command]


def test_status_tells_of_those_that_answer_and_of_the_other_one(tmp_path: Path) -> None:
    outcome = verb(tmp_path, "status", 1)
    assert outcome.code == 0, outcome.text
    assert "answers in 9 ms" in outcome.json
    # What is deployed counts, not what is declared.
    line = f"spark-2 {REFUSED}, away since 14:03:20: if it is down, its engine is missing, the others serve. To do: "
    assert line in outcome.json


def test_status_of_a_node_that_can_t_be_asked(tmp_path: Path) -> None:
    states = as_planned(topology="cluster")
    asked = {"file": "operations/verbs/status.py", "programs": PROGRAMS, "failing": {NAMES[1]: ["look.status"]}}
    outcome = deploy(tmp_path, states, "-y", **asked)
    assert outcome.code == 0, outcome.text
    assert "@fake/spark-2 lets us in and does not say how it is" in outcome.json
    assert "`sudo -n python3 --version` must work there" in outcome.json


@pytest.mark.parametrize("off", [0, 1])
def test_endpoint_needs_one_node_alone(tmp_path: Path, off: int) -> None:
    outcome = verb(tmp_path, "endpoint", off)
    assert outcome.code == 0
    assert outcome.json == "OPENAI_BASE_URL=http://h:8000/v1\nOPENAI_API_KEY=k\nOPENAI_MODEL=m\n"


def test_endpoint_names_the_virtual_address_first_and_each_node_s_own(tmp_path: Path) -> None:
    states = as_planned(topology="replicas")
    told = {name: {"url": f"http://10.0.0.1{index}:8000/v1"} for index, name in enumerate(NAMES, 1)}

    def lines(**more: str) -> list[str]:
        by_node = {name: {"door.endpoint": {**url, "key": "k", "model": "m", **more}} for name, url in told.items()}
        outcome = deploy(tmp_path, states, "-y", file="operations/verbs/endpoint.py", by_node=by_node)
        assert outcome.code == 0, outcome.text
        return outcome.json.splitlines()

    assert lines()[:2] == [
        "# @fake/spark-2 alone: http://10.0.0.12:8000/v1",
        "OPENAI_BASE_URL=http://10.0.0.11:8000/v1",
    ]
    assert lines(address="http://10.0.0.50:8000/v1")[:3] == [
        "# @fake/spark-1 alone: http://10.0.0.11:8000/v1",
        "# @fake/spark-2 alone: http://10.0.0.12:8000/v1",
        "OPENAI_BASE_URL=http://10.0.0.50:8000/v1",
    ]
    by_node = {name: {"door.endpoint": {"url": ""}} for name in NAMES}
    none = deploy(tmp_path, states, "-y", file="operations/verbs/endpoint.py", by_node=by_node)
    assert none.code == 1 and "no proxy runs on a node that answers" in none.text


def test_who_reads_the_first_lines_of_it_gets_no_traceback(monkeypatch: pytest.MonkeyPatch) -> None:
    reads, writes = os.pipe()
    os.close(reads)
    with os.fdopen(writes, "w") as pipe:
        monkeypatch.setattr(sys, "stdout", pipe)
        report.endpoint_lines({"spark-1": {"url": "http://h:8000/v1", "key": "k", "model": "m"}})


@pytest.mark.parametrize("off", [0, 1])
def test_audit_needs_the_head_alone(tmp_path: Path, off: int) -> None:
    outcome = verb(tmp_path, "audit", off)
    assert outcome.code == (1 if off == 0 else 0), outcome.text
    assert ("experts" in outcome.json) is (off == 1)
    assert off == 1 or f"only the head knows: spark-1 {REFUSED}" in outcome.text


@pytest.mark.parametrize("off", [0, 1])
def test_verify_compares_those_that_answer(tmp_path: Path, off: int) -> None:
    outcome = verb(tmp_path, "verify", off)
    assert outcome.code == 0, outcome.text
    assert outcome.json.count("whole, every byte proven") == 1
    assert f"spark-{off + 1} {REFUSED}" in outcome.json


def test_verify_in_solo_without_the_head_has_nobody_to_ask(tmp_path: Path) -> None:
    outcome = verb(tmp_path, "verify", 0, topology="solo", served="solo")
    assert outcome.refused and f"no node that serves can be asked: spark-1 {REFUSED}: " in outcome.text
    assert "nothing answers, engine and proxy are there. To do: " in outcome.text


@pytest.mark.parametrize("name", ["verify", "prune"])
def test_what_an_absence_means_is_told_of_what_serves_and_not_of_what_is_declared(tmp_path: Path, name: str) -> None:
    said = verb(tmp_path, name, 1, topology="cluster", served="replicas").json
    assert f"spark-2 {REFUSED}: if it is down, its engine is missing, the others serve. To do: " in said
    # Where no node knows what serves, nothing is guessed.
    (line,) = [line for line in verb(tmp_path, name, 1).json.splitlines() if line.startswith("spark-2 ")]
    assert line.startswith(f"spark-2 {REFUSED}: it is on, without an ssh server")


def test_prune_goes_on_with_those_that_answer(tmp_path: Path) -> None:
    outcome = verb(tmp_path, "prune", 1)
    assert outcome.code == 0, outcome.text
    assert "spark-1: every image of Tandem's is needed" in outcome.json and f"spark-2 {REFUSED}" in outcome.json
    # A head from which nothing comes at all is at work for nobody.
    outcome = verb(tmp_path, "prune", 0, inventory=DARK)
    assert outcome.code == 0, outcome.text
    assert "spark-2: every image of Tandem's is needed" in outcome.json and f"spark-1 {REFUSED}" in outcome.json


@pytest.mark.parametrize("name", ["prune", "down"])
def test_a_head_that_this_machine_alone_can_t_reach_may_be_at_work(tmp_path: Path, name: str) -> None:
    outcome = verb(tmp_path, name, 0)
    assert outcome.refused and outcome.commands == [] and "Traceback" not in outcome.text
    assert f"can't be asked whether a deploy is at work: spark-1 {REFUSED}: it is on, without an ssh" in outcome.text
    assert "every image of Tandem's is needed" not in outcome.json
    if name == "down":
        verb(tmp_path, name, 0, inventory=DARK).position(
            2, f"systemctl --no-reload disable --now --quiet {ENGINE}.service"
        )


def test_check_of_a_solo_names_the_node_that_is_away(tmp_path: Path) -> None:
    outcome = verb(tmp_path, "check", 1, topology="solo")
    assert outcome.code == 0, outcome.text
    assert "solo on 1 node(s): ok" in outcome.json
    assert f"spark-2 {REFUSED}: the service needs nothing of it" in outcome.json


def test_down_takes_down_what_answers_and_says_what_the_other_keeps(tmp_path: Path) -> None:
    outcome = verb(tmp_path, "down", 1)
    assert outcome.refused
    outcome.position(1, f"systemctl --no-reload disable --now --quiet {ENGINE}.service")
    assert f"spark-2 {REFUSED}: it keeps what it has, and starts that again when it boots" in outcome.text
