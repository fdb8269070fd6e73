"""Prometheus and Alertmanager, the real ones, by the units and configurations of a plan: an alarm comes and ends."""

from __future__ import annotations

import json
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

import pytest

from operations.node.monitoring import alarm_test, monitors
from operations.paths import ALERTMANAGER, PROMETHEUS
from operations.plan.services.alertmanager import CREDENTIALS
from operations.plan.services.service import Program
from operations.wire.unit import Receiver
from tests.node import receivers, watchers
from tests.node.receivers import Received
from tests.plan.samples import plan
from tests.support.ports import free_port
from tests.support.serving import Quiet, serving
from tests.support.waiting import until

#: Waiting that a test can't do.
_SHORTER = {
    "prometheus.yml": {"15s": "1s", "10s": "1s"},
    "rules.yml": {"for: 1m": "for: 1s", "for: 2m": "for: 1s"},
    "alertmanager.yml": {"30s": "1s", "5m": "2s"},
}
TOKEN = "hook-secret"


@dataclass
class Watch:
    """What runs. `metrics`: what the node's exporter says."""

    webhook: Received
    ntfy: Received
    mail: Received
    root: Path
    folder: Path
    ports: dict[str, int]
    metrics: list[str] = field(default_factory=list)


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return watchers.unpacked(tmp_path_factory.mktemp("packages"))


@pytest.fixture(scope="module")
def watch(root: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Watch]:
    folder = tmp_path_factory.mktemp("watch")
    said: list[str] = ['tandem_unit_failed{unit="tandem-engine",model="nemotron"} 0']
    with (
        receivers.webhook() as webhook,
        receivers.webhook() as ntfy,
        receivers.mail_server() as mail,
        exporter(said) as scraped,
    ):
        ports = {"monitoring_port": scraped, "prometheus_port": free_port(), "alertmanager_port": free_port()}
        (folder / "token").write_text(f"{TOKEN}\n")
        alarms: Any = [
            {"webhook": f"http://127.0.0.1:{webhook.port}/hook", "token_file": str(folder / "token")},
            {"ntfy": f"http://127.0.0.1:{ntfy.port}/topic"},
            {"email": "you@x.org", "from": "a@x.org", "smtp": f"127.0.0.1:{mail.port}", "plain": True},
        ]
        head = plan(1, topology="solo", monitoring="prometheus", alarms=alarms, **ports).head
        put(folder, head.services[PROMETHEUS])
        put(folder, head.services[ALERTMANAGER])
        # What systemd gives to Alertmanager.
        (folder / "alarm-0").write_text(TOKEN)
        places = {"/etc/tandem/prometheus": str(folder), "/var/lib/tandem-prometheus": f"{folder}/kept"}
        keeps = watchers.command(root, head.services[PROMETHEUS], places)
        places = {"${CREDENTIALS_DIRECTORY}": str(folder), "/var/lib/tandem-alertmanager": f"{folder}/told"}
        sends = watchers.command(root, head.services[ALERTMANAGER], places)
        with (
            watchers.running(sends, folder / "alertmanager.log", ports["alertmanager_port"]),
            watchers.running(keeps, folder / "prometheus.log", ports["prometheus_port"]),
        ):
            yield Watch(webhook, ntfy, mail, root, folder, ports, said)


def put(folder: Path, program: Program) -> None:
    """The files of a unit, in the test's folder, with less waiting."""
    for file in program.files:
        content, name = file.content, file.path.rpartition("/")[2]
        for long, short in _SHORTER.get(name, {}).items():
            assert long in content, (name, long)
            content = content.replace(long, short)
        content = content.replace(CREDENTIALS, str(folder)).replace("/etc/tandem/prometheus", str(folder))
        (folder / name).write_text(content)


@contextmanager
def exporter(said: list[str]) -> Iterator[int]:
    """Serves these lines as metrics; gives its port."""

    class Handler(Quiet):
        def do_GET(self) -> None:
            self.reply("".join(f"{line}\n" for line in said).encode(), kind="text/plain")

    with serving(Handler) as url:
        yield int(url.rpartition(":")[2])


def of(got: Received, name: str, status: str) -> list[tuple[str, str, Any]]:
    return [
        each
        for each in got.hooks
        if any(alert["labels"]["alertname"] == name and alert["status"] == status for alert in each[2]["alerts"])
    ]


def test_prometheus_own_tools_take_the_configurations(watch: Watch) -> None:
    for argv in (
        ["promtool", "check", "config", str(watch.folder / "prometheus.yml")],
        ["amtool", "check-config", str(watch.folder / "alertmanager.yml")],
    ):
        subprocess.run([str(watch.root / "usr/bin" / argv[0]), *argv[1:]], check=True, capture_output=True)


def test_an_alarm_reaches_everybody_and_so_does_its_end(watch: Watch) -> None:
    name, log = "TandemEngineGaveUp", watch.folder / "alertmanager.log"
    failed = 'tandem_unit_failed{unit="tandem-engine",model="nemotron"}'
    watch.metrics[:] = [f"{failed} 1", 'tandem_plan_info{model="nemotron"} 1']
    path, authorization, body = until(lambda: of(watch.webhook, name, "firing"), 60, logs=log.read_text)[0]
    assert (path, authorization) == ("/hook", f"Bearer {TOKEN}")
    (alarm,) = [each for each in body["alerts"] if each["labels"]["alertname"] == name]
    assert alarm["labels"]["node"] == "spark-1" and alarm["annotations"]["model"] == "nemotron"
    assert set(body["groupLabels"]) == {"node", "model"}
    topic = until(lambda: of(watch.ntfy, name, "firing"), 60, logs=log.read_text)[0][0]
    asked = parse_qs(urlsplit(topic).query)
    assert urlsplit(topic).path == "/topic" and asked["tpl"] == ["1"] and "annotations.summary" in asked["m"][0]
    subject, text = until(
        lambda: [m for m in watch.mail.mails if "has ended too often" in m[0]], 60, logs=log.read_text
    )[0]
    assert "firing" in subject and "next: `tandem status`" in text and "model: nemotron" in text
    assert "more: tandem explain TandemEngineGaveUp" in text.splitlines()

    watch.metrics[0] = f"{failed} 0"
    until(lambda: of(watch.webhook, name, "resolved"), 60, logs=log.read_text)
    until(lambda: of(watch.ntfy, name, "resolved"), 60, logs=log.read_text)
    until(
        lambda: [mail for mail in watch.mail.mails if f"alarm: {name}" in mail[1] and "resolved: " in mail[1]],
        60,
        logs=log.read_text,
    )


def test_of_several_models_the_one_that_is_ill_is_the_alarm_s(watch: Watch) -> None:
    """Its own label comes before the name that Prometheus gives to all alarms that go out."""
    name, log = "TandemEngineGaveUp", watch.folder / "alertmanager.log"
    failed = 'tandem_unit_failed{unit="tandem-engine-coder",model="coder"}'
    of_both = ['tandem_plan_info{model="nemotron"} 1', 'tandem_plan_info{model="coder"} 1']
    watch.metrics[:] = [f"{failed} 1", *of_both]
    try:
        body = until(
            lambda: [each for each in of(watch.webhook, name, "firing") if "coder" in str(each)], 60, logs=log.read_text
        )[0][2]
    finally:
        watch.metrics[:] = [f"{failed} 0", *of_both]
    (alarm,) = [each for each in body["alerts"] if each["labels"]["alertname"] == name]
    assert alarm["labels"]["model"] == alarm["annotations"]["model"] == body["groupLabels"]["model"] == "coder"
    assert "the engine of coder on spark-1" in alarm["annotations"]["summary"]
    until(
        lambda: [each for each in of(watch.webhook, name, "resolved") if "coder" in str(each)], 60, logs=log.read_text
    )


@pytest.fixture
def node(watch: Watch, monkeypatch: pytest.MonkeyPatch) -> Watch:
    """The node programs look where the test has put things."""
    monkeypatch.setattr(monitors, "UNIT_FILES", watch.folder)
    monkeypatch.setattr(alarm_test, "RECEIVERS", watch.folder / "receivers.json")
    return watch


def test_both_answer_that_they_are_ready(node: Watch, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert monitors.main(monitors.UNITS) == dict.fromkeys(monitors.UNITS, "")
    # As on a head whose environment knows a proxy.
    monkeypatch.setenv("http_proxy", f"http://127.0.0.1:{free_port()}")
    assert monitors.main(monitors.UNITS) == dict.fromkeys(monitors.UNITS, "")
    monkeypatch.setattr(monitors, "UNIT_FILES", tmp_path)
    assert all(monitors.main(monitors.UNITS).values())


def test_a_test_alarm_is_told_to_all_of_them(node: Watch) -> None:
    answer = alarm_test.main("spark-1", "nemotron")
    assert (answer["waits"], answer["failed"]) == ({}, {}), answer
    assert [each["kind"] for each in answer["receivers"]] == ["webhook", "ntfy", "email"]
    assert of(node.webhook, "TandemTest", "firing") and of(node.ntfy, "TandemTest", "firing")
    # Its end too: nobody has to wonder whether it is over.
    until(lambda: of(node.webhook, "TandemTest", "resolved"), 60, logs=(node.folder / "alertmanager.log").read_text)


@pytest.mark.parametrize("status", [500, 401])
def test_a_receiver_that_refuses_is_told_within_half_a_minute(node: Watch, status: int) -> None:
    node.webhook.status = status
    try:
        start = time.monotonic()
        answer = alarm_test.main("spark-1", "nemotron")
    finally:
        node.webhook.status = 200
    # The end of the alarm of the test before can't be told either.
    assert (answer["waits"], set(answer["failed"])) == ({"webhook": 1}, {"webhook"}), answer
    assert time.monotonic() - start < 31


def test_where_none_is_deployed_that_is_said(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(monitors, "UNIT_FILES", tmp_path)
    assert "no Alertmanager" in alarm_test.main("spark-1", "m")["problem"]


def test_who_takes_no_connection_is_named(node: Watch) -> None:
    receivers_of = json.loads((node.folder / "receivers.json").read_text())
    assert monitors.silent(receivers_of) == []
    dead: Receiver = {"kind": "webhook", "to": "http://x/...", "host": "127.0.0.1", "port": free_port()}
    assert monitors.silent([dead]) == ["webhook http://x/...: Connection refused"]
