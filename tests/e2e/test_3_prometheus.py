"""Prometheus and Alertmanager on the lab's head: a unit that is killed raises its alarm at a webhook here."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from operations.paths import ALARM_SECRETS, ALERTMANAGER, ENGINE, PROMETHEUS
from tests.e2e.settled import wait_for
from tests.e2e.watched import TOKEN, Watched, asked, bring_programs, take_programs_away, watching
from tests.lab.cluster import HEAD, WORKER, on
from tests.lab.settings import MANAGEMENT_NET

pytestmark = [pytest.mark.lab, pytest.mark.long, pytest.mark.usefixtures("lab")]

BOTH = (PROMETHEUS, ALERTMANAGER)
PORTS = {PROMETHEUS: 8021, ALERTMANAGER: 8022}
ADDRESSES = {PROMETHEUS: "192.168.177.11", ALERTMANAGER: "127.0.0.1"}
#: A unit that ends stays down while this is there.
STAYS_DOWN = f"/run/systemd/system/{ENGINE}.service.d/test.conf"


@pytest.fixture(scope="module")
def watched(lab: None, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Watched]:
    """Nothing is deployed yet with these knobs."""
    with watching(tmp_path_factory.mktemp("secret")) as made:
        yield made


def test_a_head_that_gets_no_packages_serves_and_is_told_so(watched: Watched) -> None:
    """A lab's node has no way out, and its apt nobody to ask."""
    done = watched.deploy()
    assert done.code == 0, done.text
    assert "nothing keeps metrics or sends alarms, no packages came" in " ".join(done.text.split())
    assert on(HEAD, "systemctl is-enabled prometheus", check=False).strip() != "masked"
    said = watched.verb("status")
    assert said.returncode == 0 and f"{HEAD.name} {PROMETHEUS}: `tandem apply` deploys it" in said.stdout, said.stdout
    assert watched.verb("alarm-test").returncode != 0


def test_with_the_programs_both_run_and_the_distribution_s_do_not(
    watched: Watched, tmp_path_factory: pytest.TempPathFactory
) -> None:
    bring_programs(tmp_path_factory.mktemp("packages"))
    done = watched.deploy()
    assert done.code == 0, done.text
    for unit in BOTH:
        assert on(HEAD, f"systemctl is-active {unit}").strip() == "active"
        assert on(WORKER, f"systemctl list-unit-files {unit}.service -q; true") == ""
    assert on(HEAD, "systemctl is-active prometheus prometheus-alertmanager", check=False).split() == ["inactive"] * 2
    assert "does not answer" not in done.text
    said = watched.verb("status").stdout
    assert not any(f"{HEAD.name} {unit}: " in said for unit in BOTH), said
    again = watched.deploy()
    assert (again.code, again.changes) == (0, 0), again.text


def test_they_listen_on_fabric_and_loopback_alone_unprivileged_and_bounded(watched: Watched) -> None:
    for unit, port in PORTS.items():
        assert on(HEAD, f"ss -Hltn sport = :{port}").split()[3] == f"{ADDRESSES[unit]}:{port}"
        names = "MainPID,MemoryMax,CPUQuotaPerSecUSec,OOMScoreAdjust,NRestarts"
        lines = on(HEAD, f"systemctl show {unit} --property={names}").splitlines()
        said = dict(line.split("=", 1) for line in lines)
        assert int(said["MemoryMax"]) <= 512 << 20 and said["CPUQuotaPerSecUSec"] in ("500ms", "200ms")
        assert (said["OOMScoreAdjust"], said["NRestarts"]) == ("1000", "0")
        status = on(HEAD, f"cat /proc/{said['MainPID']}/status")
        assert f"CapEff:\t{0:016x}" in status and "NoNewPrivs:\t1" in status
        uid = next(line.split()[1] for line in status.splitlines() if line.startswith("Uid:"))
        # systemd makes a user for each, in its own range.
        assert 61184 <= int(uid) <= 65519
        assert TOKEN not in on(HEAD, f"tr '\\0' '\\n' < /proc/{said['MainPID']}/cmdline")
    # All of UDP and TCP that Alertmanager has: no gossip.
    assert ":9094" not in on(HEAD, "ss -Hlntu")
    assert on(HEAD, f"stat -c '%a %u' {ALARM_SECRETS} {ALARM_SECRETS}/alarm-0").splitlines() == ["700 0", "600 0"]


def test_every_node_is_scraped_and_the_rules_are_there(watched: Watched) -> None:
    def up() -> set[str]:
        return {each["metric"]["node"] for each in asked('up{job="tandem"}==1')}

    wait_for(lambda: up() == {HEAD.name, WORKER.name}, 60)
    rules = json.loads(on(HEAD, "curl -sf http://192.168.177.11:8021/api/v1/rules"))["data"]["groups"][0]["rules"]
    assert all(rule["health"] in ("ok", "unknown") for rule in rules) and len(rules) > 10


def test_alarm_test_reaches_the_webhook_and_says_when_it_does_not(watched: Watched) -> None:
    said = watched.verb("alarm-test")
    assert said.returncode == 0 and f"webhook: http://{MANAGEMENT_NET}.1" in said.stdout, said.stderr
    assert watched.alerts("TandemTest", "firing")
    assert watched.webhook.hooks[-1][1] == f"Bearer {TOKEN}"
    watched.webhook.status = 500
    try:
        said = watched.verb("alarm-test")
    finally:
        watched.webhook.status = 200
    assert said.returncode != 0 and "could not be told: 1 by webhook" in " ".join(said.stderr.split()), said.stderr


def test_a_unit_that_is_killed_raises_its_alarm_and_its_end_is_told(watched: Watched) -> None:
    on(WORKER, f"mkdir -p {Path(STAYS_DOWN).parent} && printf '[Service]\\nRestart=no\\n' > {STAYS_DOWN}")
    on(WORKER, f"systemctl daemon-reload && systemctl kill --signal=KILL {ENGINE}")
    try:
        # A scrape, a look at the rules, and the half minute in which Alertmanager gathers.
        (alarm, *_) = wait_for(lambda: watched.alerts("TandemEngineGaveUp", "firing"), 180)
        assert alarm["labels"]["node"] == WORKER.name and alarm["labels"]["model"]
        assert alarm["annotations"]["next"]
    finally:
        on(WORKER, f"rm {STAYS_DOWN} && systemctl daemon-reload && systemctl reset-failed {ENGINE}")
        on(WORKER, f"systemctl start --no-block {ENGINE}")
    wait_for(lambda: watched.alerts("TandemEngineGaveUp", "resolved"), 480)


def test_one_that_is_down_is_named_by_status_and_the_next_deploy_brings_it_back(watched: Watched) -> None:
    on(HEAD, f"systemctl stop {PROMETHEUS}")
    said = watched.verb("status")
    assert f"{HEAD.name} {PROMETHEUS}: " in said.stdout, said.stdout
    assert watched.deploy().code == 0
    assert on(HEAD, f"systemctl is-active {PROMETHEUS}").strip() == "active"


def test_without_the_knob_both_are_gone_and_what_was_kept_stays(watched: Watched) -> None:
    before = [on(each, f"docker inspect --format '{{{{.Id}}}}' {ENGINE}") for each in (HEAD, WORKER)]
    done = watched.deploy(monitoring="off")
    assert done.code == 0, done.text
    assert on(HEAD, f"ls -d {ALARM_SECRETS} /etc/systemd/system/tandem-prometheus.service 2>/dev/null; true") == ""
    assert on(HEAD, "ss -Hltn '( sport = :8021 or sport = :8022 )'").strip() == ""
    assert on(HEAD, "ls /var/lib/private/tandem-prometheus") != ""
    assert [on(each, f"docker inspect --format '{{{{.Id}}}}' {ENGINE}") for each in (HEAD, WORKER)] == before
    take_programs_away()
