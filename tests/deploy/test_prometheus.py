"""What a deploy and the verbs do for Prometheus and Alertmanager: on the head, last, and no model waits for them."""

from __future__ import annotations

import hashlib
import json
import re
from pathlib import Path
from typing import Any

import pytest

from operations.paths import ALARM_SECRETS, ALERTMANAGER, ENGINE, EXPORTER, PROMETHEUS
from tests.deploy.fake import NAMES, Outcome, as_planned, deploy

BOTH = (ALERTMANAGER, PROMETHEUS)
WELL = {"monitoring.monitors": dict.fromkeys(BOTH, "")}
SECRET = "t0ken-of-mine"
#: Nothing answers here, and a test does not wait for it.
AT_ONCE = "\nfrom operations.steps import prometheus\n\nprometheus.READY_S = 0\n"


class Nodes:
    """Two nodes as a deploy with `prometheus` and an alarm has left them."""

    def __init__(self, folder: Path) -> None:
        self.folder, token = folder, folder / "token"
        token.write_text(f"{SECRET}\n")
        token.chmod(0o600)
        self.knobs = {
            "monitoring": "prometheus",
            "alarms": [{"webhook": "http://x.org/hook", "token_file": str(token)}],
        }
        self.states = as_planned(**self.knobs)
        self.head = self.states[0]
        self.head["secrets"] |= {f"{ALARM_SECRETS}/alarm-0": hashlib.sha256(SECRET.encode()).hexdigest()}

    def without(self) -> None:
        """As they were before."""
        for unit in BOTH:
            self.head["services"]["units"][unit] = {}
        self.head["secrets"].pop(f"{ALARM_SECRETS}/alarm-0")

    def deploy(self, **more: Any) -> Outcome:
        knobs = self.knobs | more.pop("knobs", {})
        data = [f"{name}={json.dumps(value) if isinstance(value, list) else value}" for name, value in knobs.items()]
        words = [word for each in data for word in ("--data", each)]
        more.setdefault("programs", WELL)
        return deploy(self.folder, self.states, "-y", *words, **more)


@pytest.fixture
def nodes(tmp_path: Path) -> Nodes:
    return Nodes(tmp_path)


def starts(outcome: Outcome) -> list[tuple[str, str]]:
    return [(node, unit) for node, ran in outcome.commands for unit in BOTH if f"start --no-block {unit}" in ran]


def test_they_are_started_on_the_head_behind_all_that_serves(nodes: Nodes) -> None:
    nodes.without()
    nodes.head["services"]["units"][EXPORTER] = {}
    outcome = nodes.deploy()
    assert outcome.code == 0, outcome.text
    assert starts(outcome) == [("spark-1", ALERTMANAGER), ("spark-1", PROMETHEUS)]
    exporter = outcome.position(1, f"start --no-block {EXPORTER}")
    assert exporter < outcome.position(1, f"start --no-block {ALERTMANAGER}")
    assert not any(ENGINE in ran for _, ran in outcome.commands)
    assert SECRET not in outcome.text


def test_a_second_deploy_changes_nothing(nodes: Nodes) -> None:
    outcome = nodes.deploy()
    assert outcome.code == 0 and outcome.commands == [], outcome.text


def test_another_token_is_handed_over_unseen_and_alertmanager_alone_starts_anew(nodes: Nodes) -> None:
    nodes.head["secrets"][f"{ALARM_SECRETS}/alarm-0"] = "another"
    nodes.head["secrets"][f"{ALARM_SECRETS}/alarm-7"] = "of a receiver that is gone"
    outcome = nodes.deploy()
    assert outcome.code == 0 and starts(outcome) == [("spark-1", ALERTMANAGER)], outcome.text
    assert outcome.position(1, f"rm -f {ALARM_SECRETS}/alarm-7") >= 0
    assert SECRET not in outcome.text


def test_without_packages_the_deploy_says_so_starts_neither_and_succeeds(nodes: Nodes) -> None:
    nodes.without()
    nodes.head["missing"] = ["prometheus", "prometheus-alertmanager"]
    outcome = nodes.deploy()
    assert outcome.code == 0 and starts(outcome) == [], outcome.text
    assert "the head gets the packages prometheus, prometheus-alertmanager of its distribution" in outcome.text


def test_what_apt_refused_a_while_ago_is_not_asked_again_and_changes_nothing(nodes: Nodes) -> None:
    nodes.without()
    nodes.head |= {"missing": ["prometheus", "prometheus-alertmanager"], "refused": True}
    outcome = nodes.deploy()
    assert outcome.code == 0 and outcome.commands == [], outcome.text
    # Hosts, those that were changed, that failed, that were not changed.
    assert re.search(r"Grand total +(\d+) +- +- +\1 ", outcome.text), outcome.text
    assert "apt install --no-install-recommends prometheus prometheus-alertmanager" in " ".join(outcome.text.split())


def test_what_does_not_answer_or_can_t_be_asked_is_a_warning(nodes: Nodes) -> None:
    nodes.without()
    silent = {"monitoring.monitors": {ALERTMANAGER: "", PROMETHEUS: "Connection refused"}}
    outcome = nodes.deploy(programs=silent, inventory=AT_ONCE)
    assert outcome.code == 0, outcome.text
    assert f"{PROMETHEUS} does not answer (Connection refused)" in " ".join(outcome.text.split())
    outcome = nodes.deploy(failing={NAMES[0]: ["monitoring.monitors"]})
    assert outcome.code == 0, outcome.text


def test_a_receiver_that_does_not_answer_is_a_warning_before_anything_changes(nodes: Nodes) -> None:
    outcome = nodes.deploy(deaf=["webhook http://x.org/...: Connection refused"])
    assert outcome.code == 0 and "the head does not reach webhook http://x.org/...: Connection refused" in outcome.text


def test_a_secret_that_others_can_read_is_refused_before_the_first_change(nodes: Nodes) -> None:
    (nodes.folder / "token").chmod(0o644)
    outcome = nodes.deploy()
    assert outcome.code != 0 and "can be read by others" in outcome.text and outcome.commands == []


@pytest.mark.parametrize("monitoring", ["metrics", "off"])
def test_without_the_knob_units_and_secrets_go(nodes: Nodes, monitoring: str) -> None:
    outcome = nodes.deploy(knobs={"monitoring": monitoring})
    assert outcome.code == 0, outcome.text
    for unit in BOTH:
        assert outcome.position(1, f"disable --now --quiet {unit}.service") >= 0
    assert outcome.position(1, f"rm -rf {ALARM_SECRETS}") >= 0
    assert not any("/var/lib" in ran and "tandem-prometheus" in ran for _, ran in outcome.commands)


def test_down_takes_them(nodes: Nodes) -> None:
    services = {"units": {unit: {"UnitFileState": "enabled"} for unit in nodes.head["services"]["units"]}}
    outcome = nodes.deploy(file="operations/verbs/down.py", programs={"unit.services": services})
    assert outcome.code == 0, outcome.text
    assert all(outcome.position(1, f"disable --now --quiet {unit}.service") >= 0 for unit in BOTH)


def alarm_test(nodes: Nodes, answer: dict[str, Any], **more: Any) -> Outcome:
    return nodes.deploy(file="operations/verbs/alarm_test.py", programs={"monitoring.alarm_test": answer}, **more)


TOLD = {"receivers": [{"kind": "webhook", "to": "http://x.org/..."}], "waits": {}, "failed": {}, "why": ""}


def test_an_alarm_test_says_where_it_went(nodes: Nodes) -> None:
    outcome = alarm_test(nodes, TOLD)
    assert outcome.code == 0, outcome.text
    assert "webhook: http://x.org/..." in outcome.json and "has taken the test alarm" in outcome.json


@pytest.mark.parametrize(
    ("answer", "said"),
    [
        (
            TOLD | {"failed": {"webhook": 1}, "why": "status 500"},
            "could not be told: 1 by webhook; Alertmanager's last",
        ),
        (TOLD | {"waits": {"webhook": 1}}, "not told within 30 s: 1 by webhook"),
        (TOLD | {"receivers": []}, "nobody is told of alarms"),
        ({"problem": "no Alertmanager of Tandem's is here"}, "no Alertmanager of Tandem's is here: `tandem status`"),
    ],
)
def test_an_alarm_test_that_reaches_not_everybody_fails(nodes: Nodes, answer: dict[str, Any], said: str) -> None:
    outcome = alarm_test(nodes, answer)
    assert outcome.code != 0 and said in " ".join(outcome.text.split()), outcome.text


def test_an_alarm_test_without_the_knob_says_which_one(nodes: Nodes) -> None:
    outcome = alarm_test(nodes, TOLD, knobs={"monitoring": "metrics"})
    assert outcome.code != 0 and 'monitoring = "prometheus" in group_data/all.py' in outcome.text


def test_an_alarm_test_without_anybody_to_tell_asks_no_node(nodes: Nodes) -> None:
    outcome = alarm_test(nodes, TOLD, knobs={"alarms": []})
    assert outcome.code != 0 and "nobody is told of alarms: name somebody in `alarms`" in " ".join(outcome.text.split())
