"""Whom alarms are sent to: what is refused, what Alertmanager is told, and where secrets are."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import yaml

from operations.paths import ALERTMANAGER, ENGINE, EXPORTER, PROMETHEUS, PROXY
from operations.plan.checks import check_survey
from operations.plan.config.alarms import check_alarms, goes_to, secret_files
from operations.plan.config.refusal import Refusal
from operations.plan.plan import Plan
from operations.plan.services.monitoring import addresses_by_knobs, scrape_config, targets
from operations.plan.services.ports import listens
from operations.plan.services.prometheus import monitoring_remarks
from operations.plan.services.service import Program
from tests.plan.samples import knobs, plan, survey
from tests.plan.two_models import two_models

MAIL = {"email": "you@x.org", "from": "a@x.org", "smtp": "mail.x.org:587"}


def watching(count: int = 2, **changes: Any) -> Plan:
    return plan(count, monitoring="prometheus", **changes)


def file_of(program: Program | None, name: str) -> str:
    assert program
    return next(file.content for file in program.files if file.path.endswith(f"/{name}"))


@pytest.mark.parametrize(
    ("receiver", "said"),
    [
        ("https://x.org/hook", "expected a list of"),
        ({}, "expected a list of"),
        ({"webhook": "https://x.org", "email": "a@x.org"}, "number 1: expected a list of"),
        ({"webhook": "x.org/hook"}, "expected an http:// or https:// URL"),
        ({"webhook": "https://x.org:99999/"}, "expected an http:// or https:// URL"),
        # Alertmanager ends at once over each of these, and then nobody is told of anything.
        ({"webhook": "https://x.org/s3cret%zz"}, "a % that two hex digits do not follow"),
        ({"ntfy": "https://x.org/s3cret%2"}, "a % that two hex digits do not follow"),
        ({"webhook": "https://x%41.org/"}, "expected an http:// or https:// URL with a host"),
        ({"webhook": "https://x<y>.org/"}, "expected an http:// or https:// URL with a host"),
        ({"webhook": "https://x.org/a b"}, "a space, or a character that is not ASCII"),
        ({"webhook": "https://x.org/tür"}, "a space, or a character that is not ASCII"),
        ({"webhook": "https://x.org/\x07"}, "webhook is no text in one line"),
        ({"webhook": 7}, "webhook is no text"),
        ({"webhook": "https://x.org/\n"}, "webhook is no text in one line"),
        ({"ntfy": "https://me:s3cret@x.org/topic"}, "put a token into a file"),
        ({"webhook": "https://x.org", "password": "s3cret"}, "knows no password; beside it: token_file"),
        ({"email": "you@x.org", "smtp": "mail.x.org:25"}, "needs `from`"),
        (MAIL | {"smtp": "mail.x.org"}, 'smtp is "HOST:PORT"'),
        (MAIL | {"from": "a"}, "are addresses"),
        (MAIL | {"user": "a"}, "user and password_file go together"),
        (MAIL | {"user": "a", "password_file": "s3cret", "plain": True}, "would cross the network"),
        (MAIL | {"plain": "yes"}, "plain is True or False"),
    ],
    ids=lambda value: str(value)[:40],
)
def test_what_is_no_receiver_is_refused_in_one_line_without_its_secret(receiver: Any, said: str) -> None:
    with pytest.raises(Refusal) as refused:
        knobs(alarms=[receiver])
    (finding,) = refused.value.findings
    assert finding.problem.startswith("alarms: ") and said in finding.problem
    assert "\n" not in finding.problem and "s3cret" not in str(refused.value)


@pytest.mark.parametrize(
    "url",
    ["https://x.org/a%20b?c=%C3%BC&d=~e", "http://10.0.0.9:8080/h", "http://[fd00::1]:9/h", "https://my_chat.lan"],
)
def test_a_url_that_alertmanager_takes_is_taken(url: str) -> None:
    assert [dict(each) for each in knobs(alarms=[{"webhook": url}]).alarms] == [{"webhook": url}]


def test_secrets_are_in_files_that_nobody_else_reads(tmp_path: Path) -> None:
    file = tmp_path / "token"
    alarms = knobs(alarms=[{"webhook": "https://x.org/h", "token_file": str(file)}]).alarms
    assert [finding.problem for finding in check_alarms(alarms)] == [f"alarms: {file} is not there"]
    file.write_text("t0ken\n")
    file.chmod(0o644)
    assert [finding.problem for finding in check_alarms(alarms)] == [f"alarms: {file} can be read by others"]
    file.chmod(0o600)
    assert list(check_alarms(alarms)) == []
    file.write_text("")
    assert [finding.problem for finding in check_alarms(alarms)] == [f"alarms: {file} has to have one line"]


def test_no_secret_is_in_a_file_of_the_plan(tmp_path: Path) -> None:
    file = tmp_path / "token"
    file.write_text("t0ken")
    alarms = [{"ntfy": "https://x.org/topic", "token_file": str(file)}, MAIL]
    head = watching(alarms=alarms).head
    assert ALERTMANAGER in head.services and secret_files(knobs(alarms=alarms).alarms) == {"alarm-0": file}
    for each in head.services[ALERTMANAGER].files:
        assert "t0ken" not in each.content and str(file) not in each.content
        # A topic is as good as a password.
        assert ("x.org/topic" in each.content) == each.path.endswith("alertmanager.yml")
        assert (each.mode == "600") == each.path.endswith("alertmanager.yml")
    assert "LoadCredential=alarm-0:" in file_of(head.services[ALERTMANAGER], "tandem-alertmanager.service")


def test_alarms_are_told_by_node_and_model_again_after_four_hours_and_when_they_end() -> None:
    told = yaml.safe_load(
        file_of(watching(alarms=[{"webhook": "https://x.org/h"}, MAIL]).head.services[ALERTMANAGER], "alertmanager.yml")
    )
    assert told["route"]["group_by"] == ["node", "model"] and told["route"]["repeat_interval"] == "4h"
    (owner,) = told["receivers"]
    (hook,), (mail,) = owner["webhook_configs"], owner["email_configs"]
    assert hook["send_resolved"] and mail["send_resolved"]
    assert mail["require_tls"] and mail["to"] == "you@x.org" and "auth_username" not in mail


@pytest.mark.parametrize(
    ("smtp", "more", "starts_tls"),
    [("m.x.org:587", {}, True), ("m.x.org:25", {"plain": True}, False), ("[fd00::1]:465", {}, False)],
)
def test_a_connection_that_is_tls_already_is_not_asked_to_become_it(smtp: str, more: Any, starts_tls: bool) -> None:
    """Alertmanager sends nothing where it is to ask for STARTTLS and the server has none."""
    of = watching(alarms=[MAIL | {"smtp": smtp} | more])
    (owner,) = yaml.safe_load(file_of(of.head.services[ALERTMANAGER], "alertmanager.yml"))["receivers"]
    assert owner["email_configs"][0]["require_tls"] == starts_tls


@pytest.mark.parametrize("topology", ["solo", "cluster", "replicas"])
def test_the_head_alone_keeps_and_scrapes_what_scrape_config_prints(topology: str) -> None:
    of = watching(topology=topology)
    assert not any(PROMETHEUS in each.services or ALERTMANAGER in each.services for each in of.nodes[1:])
    config = yaml.safe_load(file_of(of.head.services[PROMETHEUS], "prometheus.yml"))
    addresses = addresses_by_knobs(of.knobs, [each.node.name for each in of.nodes])
    printed = yaml.safe_load(scrape_config(targets(of.knobs, addresses)))
    assert config["scrape_configs"] == printed["scrape_configs"]
    assert config["global"]["external_labels"] == {"model": of.models[0].recipe.served_name}


def test_an_alarm_of_several_models_names_all_of_them_where_it_is_no_one_s() -> None:
    config = yaml.safe_load(file_of(two_models(monitoring="prometheus").head.services[PROMETHEUS], "prometheus.yml"))
    assert config["global"]["external_labels"] == {"model": "nemotron, coder"}


def test_they_listen_on_fabric_and_loopback_are_bounded_and_keep_what_the_knobs_say() -> None:
    head = watching(monitoring_days=7, monitoring_gib=2, prometheus_port=9321).head
    unit = file_of(head.services[PROMETHEUS], "tandem-prometheus.service")
    assert f"--web.listen-address={head.node.fabric}:9321" in unit and head.node.rails
    assert "retention.time=7d" in unit and "retention.size=2GB" in unit
    sends = file_of(head.services[ALERTMANAGER], "tandem-alertmanager.service")
    assert "--web.listen-address=127.0.0.1:8022 --cluster.listen-address= " in sends
    for text in (unit, sends):
        assert all(word in text for word in ("DynamicUser=yes", "MemoryMax=", "CPUQuota=", "OOMScoreAdjust=1000"))
        assert "CapabilityBoundingSet=\n" in text and "ProtectSystem=strict" in text


@pytest.mark.parametrize("monitoring", ["off", "metrics"])
def test_without_the_knob_neither_is_planned(monitoring: str) -> None:
    of = plan(monitoring=monitoring)
    assert PROMETHEUS not in of.head.services and ALERTMANAGER not in of.head.services
    assert not {8021, 8022} & set(listens(of.head.node, of.knobs, 2, of.models))


def test_to_keep_metrics_restarts_nothing_else() -> None:
    before, after = plan(monitoring="metrics").head, watching().head
    for unit in (ENGINE, PROXY, EXPORTER):
        assert before.services[unit].spec == after.services[unit].spec


def found(said: Any, index: int = 0, **changes: Any) -> str:
    of = watching(**changes)
    node = of.nodes[index].node
    return str(Refusal(*check_survey(node, said, said, of.on(node.name), of.knobs, 2)))


@pytest.mark.parametrize(("port", "knob"), [(8021, "prometheus_port"), (8022, "alertmanager_port")])
def test_a_prometheus_of_the_owners_on_the_port_is_refused_on_the_head(port: int, knob: str) -> None:
    held = survey(ports=[{"port": port, "address": "*", "process": "prometheus", "pid": "7", "ours": False}])
    assert f"port {port} is held by prometheus (pid 7)" in found(held) and f"change `{knob}`" in found(held)
    assert found(held, index=1) == "\n"


def test_what_does_not_fit_the_disk_is_refused_and_what_is_kept_already_counts() -> None:
    said = survey()
    said["disks"]["metrics"] |= {"device": 9, "free": 3 << 30}
    assert "/var/lib has 3.0 GiB free, 4 GiB are needed" in found(said) and "lower monitoring_gib" in found(said)
    assert found(said, monitoring_gib=2) == "\n"
    said["disks"]["metrics"]["kept"] = 2 << 30
    assert found(said) == "\n"
    said["state"]["missing"] = ["prometheus"]
    said["disks"]["metrics"]["free"] = 2 << 30
    assert "2.3 GiB are needed" in found(said)


def test_ports_that_meet_are_refused() -> None:
    with pytest.raises(Refusal, match="monitoring_port and prometheus_port are both 8020"):
        knobs(prometheus_port=8020)


@pytest.mark.parametrize("days", [0, -1])
def test_less_than_a_day_is_refused(days: int) -> None:
    with pytest.raises(Refusal, match="monitoring_days"):
        knobs(monitoring_days=days)


def test_an_owner_is_warned_of_what_tells_nobody() -> None:
    head = survey()
    assert "nobody is told" in " ".join(monitoring_remarks(knobs(monitoring="prometheus"), head))
    assert list(monitoring_remarks(knobs(), head)) == []
    head = survey(deaf=["webhook https://x.org/...: Connection refused"])
    head["state"]["missing"] = ["prometheus"]
    lines = list(monitoring_remarks(knobs(monitoring="prometheus", alarms=[{"webhook": "https://x.org/"}]), head))
    assert len(lines) == 2 and "does not reach webhook https://x.org/...: Connection refused" in lines[0]
    assert "prometheus of its distribution" in lines[1]
    head["state"]["refused"] = True
    assert "no packages came within the last day" in list(monitoring_remarks(knobs(monitoring="prometheus"), head))[-1]


def test_where_an_alarm_goes_is_told_without_its_path() -> None:
    told = goes_to({"webhook": "https://hooks.x.org/services/T0/s3cret"})
    assert told == {"kind": "webhook", "to": "https://hooks.x.org/...", "host": "hooks.x.org", "port": 443}
    assert goes_to({"email": "you@x.org", "from": "a@x.org", "smtp": "[fd00::1]:25"})["host"] == "fd00::1"
    assert "s3cret" not in json.dumps(told)
