"""Eight clients, a planned deploy, a kill, nodes without power: the page tells it with the right times, and each alarm
that a lab can raise reaches a webhook and a mailbox, and ends there.

A planned deploy is watched with the rules as they are shipped. Behind it their waits are cut, and nothing else of
them. What is left to promtool (tests/plan/test_rules.py): a rail that is slow or loses frames and a GPU's clock, which
a lab does not have, a disk that fills for half an hour, a deploy that lasts for hours, an exporter that sees less.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
import requests

from operations.paths import ALERTMANAGER, ENGINE, GUARD, PROMETHEUS, PROXY
from tests.chaos import client
from tests.chaos.acts import alone
from tests.chaos.deploying import broken_recipe
from tests.chaos.scene import KNOBS
from tests.e2e.settled import wait_for
from tests.e2e.watched import Watched, asked, bring_programs, is_ready, take_programs_away, watching
from tests.lab import chat, cluster
from tests.lab.cluster import HEAD, WORKER, on
from tests.lab.node import power_off, power_on, wait_until_up
from tests.lab.settings import LabNode
from tests.plan.test_tls import NOW, pair

pytestmark = [pytest.mark.lab, pytest.mark.long, pytest.mark.usefixtures("lab")]

#: Seconds until an alarm is told: a scrape, two looks at the rules, a wait; and until a node or an engine is back, or
#: Alertmanager tells of an end, which it does every five minutes.
TOLD_S, BACK_S = 180.0, 420.0
#: Seconds by which a time on the page may differ: the page looks every ten, and asks the records every fifteen.
LATE_S = 20.0
FLOOR_GIB = 10


@pytest.fixture(scope="module")
def watched(lab: None, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Watched]:
    bring_programs(tmp_path_factory.mktemp("packages"))
    with watching(tmp_path_factory.mktemp("secret"), memory_floor_gib=FLOOR_GIB) as made:
        done = made.deploy()
        assert done.code == 0, done.text
        yield made
        done = made.deploy(monitoring="off", alarms="[]", memory_floor_gib=1)
    take_programs_away()
    assert done.code == 0, done.text


def cut_waits() -> None:
    """Of the rules and of Alertmanager, on the head, until the next deploy."""
    on(HEAD, r"sed -i 's/\[10m\]/[30s]/; s/for: [0-9]*m$/for: 15s/' /etc/tandem/prometheus/rules.yml")
    on(
        HEAD,
        "sed -i 's/group_wait: 30s/group_wait: 2s/; s/group_interval: 5m/group_interval: 10s/'"
        " /etc/tandem/alertmanager/alertmanager.yml",
    )
    on(HEAD, f"systemctl restart {PROMETHEUS} {ALERTMANAGER}")
    wait_for(is_ready, TOLD_S)
    # Nobody is at the nodes any more, in the rules' own eyes.
    wait_for(lambda: asked("tandem_source_up"), TOLD_S)
    wait_for(lambda: not asked("tandem:deploy_lately"), TOLD_S)


def firing() -> set[str]:
    """Alarms that were there at any time of the last twenty minutes."""
    found = asked('count_over_time(ALERTS{alertstate="firing"}[20m])')
    return {each["metric"]["alertname"] for each in found}


def raised(watched: Watched, name: str, node: str | None = None) -> None:
    """Wait until both have been told, with what to do next."""
    (alarm, *_) = wait_for(lambda: watched.alerts(name, "firing"), TOLD_S)
    assert alarm["annotations"]["next"] and alarm["labels"]["model"] == "tiny-llama", alarm
    assert node is None or alarm["labels"]["node"] == node, alarm
    wait_for(lambda: watched.mails(name, "firing"), TOLD_S)


def ended(watched: Watched, name: str) -> None:
    wait_for(lambda: watched.alerts(name, "resolved"), BACK_S)
    wait_for(lambda: watched.mails(name, "resolved"), TOLD_S)


def told(what: str) -> Any:
    """By the page at the head."""
    at = chat.endpoint()
    url = f"{at['OPENAI_BASE_URL'].removesuffix('/v1')}/tandem/{what}"
    return requests.get(url, headers={"Authorization": f"Bearer {at['OPENAI_API_KEY']}"}, timeout=20).json()


def event(kind: str, node: LabNode, words: str, when: float) -> dict[str, Any]:
    """The page's event of about that time; raises AssertionError where it has none."""

    def found() -> list[dict[str, Any]]:
        near = (each for each in told("events.json")["events"] if abs(each["when"] - when) < LATE_S)
        return [each for each in near if (each["kind"], each["node"]) == (kind, node.name) and words in each["text"]]

    first: dict[str, Any] = wait_for(found, 60)[0]
    print(f"{node.name}, {words}: {first['when'] - when:+.1f} s", end="; ")
    return first


def until_ok() -> None:
    wait_for(lambda: {node["state"] for node in told("state.json")["nodes"]} == {"ok"}, BACK_S)


def test_a_planned_deploy_and_a_switch_under_load_wake_nobody(watched: Watched) -> None:
    at = chat.endpoint()
    with client.load(at, client.learn(at)) as load:
        for knobs in ({"routing": "simple-shuffle"}, {"topology": "solo"}, {}):
            done = watched.deploy(**knobs)
            assert done.code == 0, done.text
        # As long as the longest wait of those that a deploy could raise, and a scrape.
        time.sleep(150)
    assert load.wrong.total() == 0 and load.answered > 0, load
    assert firing() == set() and watched.webhook.hooks == [] and watched.mail.mails == []
    deploys = [each for each in told("events.json")["events"] if each["kind"] == "deploy"]
    assert "topology solo → replicas" in deploys[0]["text"] and "topology replicas → solo" in deploys[1]["text"]


def test_kills_and_a_node_without_power_are_told_with_their_times(watched: Watched) -> None:
    cut_waits()
    until_ok()
    at = chat.endpoint()
    with client.load(at, client.learn(at)) as load:
        time.sleep(5)
        for _ in range(2):
            on(WORKER, "docker kill tandem-engine")
            killed = time.time()
            event("restart", WORKER, ENGINE, killed)
            wait_for(lambda: on(WORKER, "docker ps --quiet --filter name=tandem-engine"), 60)
        raised(watched, "TandemEngineRestarts", WORKER.name)
        until_ok()
        # What the canary does after ten minutes of service.
        on(WORKER, f"systemctl reset-failed {ENGINE}")
        ended(watched, "TandemEngineRestarts")
        power_off(WORKER)
        cut = time.time()
        try:
            event("state", WORKER, "dead", cut)
            raised(watched, "TandemNodeGone", WORKER.name)
            raised(watched, "TandemRailDown", HEAD.name)
        finally:
            power_on(WORKER)
            wait_until_up(WORKER)
        until_ok()
        ended(watched, "TandemNodeGone")
        ended(watched, "TandemRailDown")
    print(load)
    # In replicas no client notices.
    assert load.wrong.total() == load.failed.total() == 0, load


def of_both(command: str) -> None:
    for node in (HEAD, WORKER):
        on(node, f"systemctl {command} {ENGINE}")


def of_worker(command: str, unit: str) -> None:
    on(WORKER, f"systemctl {command} {unit}")


def hog() -> None:
    """Leave a little more than the floor, until it is stopped."""
    said = on(HEAD, r"sed -n 's/^MemAvailable: *\([0-9]*\).*/\1/p' /proc/meminfo")
    much = int(said) * 1024 - int(FLOOR_GIB * 1.13 * 2**30)
    program = f"import time; held = b'x' * {much}; time.sleep(600)"
    on(HEAD, f'systemd-run --quiet --unit lab-hog python3 -c "{program}"')


@pytest.mark.parametrize(
    ("name", "begin", "end"),
    [
        ("TandemNoEngineAnswers", lambda: of_both("stop"), lambda: of_both("start --no-block")),
        ("TandemEngineMissing", lambda: of_worker("stop", ENGINE), lambda: of_worker("start --no-block", ENGINE)),
        ("TandemProxySilent", lambda: of_worker("stop", PROXY), lambda: of_worker("start", PROXY)),
        ("TandemUnitDown", lambda: of_worker("stop", GUARD), lambda: of_worker("start", GUARD)),
        ("TandemMemoryNearFloor", hog, lambda: on(HEAD, "systemctl stop lab-hog")),
    ],
)
def test_what_no_deploy_does_raises_its_alarm_and_its_end_is_told(
    watched: Watched, name: str, begin: Callable[[], object], end: Callable[[], object]
) -> None:
    begin()
    try:
        raised(watched, name)
    finally:
        end()
    ended(watched, name)
    until_ok()


def test_a_deploy_that_failed_is_told(watched: Watched) -> None:
    failed = watched.deploy(recipe=str(broken_recipe()))
    assert failed.code == 1
    cut_waits()
    raised(watched, "TandemDeployFailed")
    done = watched.deploy()
    assert done.code == 0, done.text
    cut_waits()
    ended(watched, "TandemDeployFailed")


def test_a_certificate_that_ends_within_a_week_is_told(watched: Watched, tmp_path: Path) -> None:
    names = [node.address for node in (HEAD, WORKER)]
    today = (datetime.now(UTC) - NOW).days
    for days, tell in ((today + 5, raised), (today + 90, ended)):
        certificate, key = pair(tmp_path, names, days, name=f"for-{days}")
        # Rules and waits as they are shipped: an Alertmanager that is started anew forgets what it has to end.
        done = watched.deploy(tls=f"files:{certificate},{key}")
        assert done.code == 0, done.text
        tell(watched, "TandemCertificateEnds")


def test_a_node_that_serves_in_the_place_of_a_cluster_is_told(watched: Watched) -> None:
    done = watched.deploy(topology="cluster", executor="mp", **KNOBS["fallback"])
    assert done.code == 0, done.text
    cut_waits()
    power_off(WORKER)
    try:
        wait_for(lambda: alone(HEAD), BACK_S)
        raised(watched, "TandemServesAlone", HEAD.name)
        # Its engine starts first.
        wait_for(lambda: told("state.json")["models"][0]["state"] == "alone", BACK_S)
    finally:
        power_on(WORKER)
        wait_until_up(WORKER)
    ended(watched, "TandemServesAlone")
    cluster.wait_until_served(chat.endpoint())
