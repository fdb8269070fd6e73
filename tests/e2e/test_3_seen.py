"""The page in a real browser, before the lab in each topology: well, starting, with a node dead, with Prometheus dead.

What it shows is compared with `tandem status` and the engines' own counters.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator

import pytest

from operations.paths import ENGINE, PROMETHEUS
from tests.chaos import client
from tests.e2e.seen import Seen, counters, grown
from tests.e2e.settled import wait_for
from tests.e2e.watched import bring_programs, take_programs_away, watching
from tests.lab import chat, cluster
from tests.lab.cluster import HEAD, WORKER, on
from tests.lab.node import power_off, power_on, wait_until_up
from tests.lab.settings import LabNode
from tests.node.browser import CHROMIUM, Door, values

pytestmark = [
    *(pytest.mark.lab, pytest.mark.long, pytest.mark.usefixtures("lab")),
    pytest.mark.skipif(not CHROMIUM, reason="no chromium is here"),
]

WAYS = {"replicas": {}, "cluster": {"executor": "mp"}, "solo": {}}
#: Seconds that an engine of the lab takes on a machine that has other work, and a node to be missed.
START_S, MISSED_S = 300.0, 30.0


@pytest.fixture(scope="module")
def programs(lab: None, tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    bring_programs(tmp_path_factory.mktemp("packages"))
    yield
    take_programs_away()


@pytest.fixture(scope="module", params=WAYS)
def seen(request: pytest.FixtureRequest, programs: None, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Seen]:
    topology = request.param
    with watching(tmp_path_factory.mktemp("secret"), topology=topology, **WAYS[topology]) as watched:
        done = watched.deploy()
        assert done.code == 0, done.text
        at = chat.endpoint()
        door = Door(at["OPENAI_BASE_URL"].removesuffix("/v1"), at["OPENAI_API_KEY"])
        yield Seen(topology, watched, at, door, tmp_path_factory.mktemp("browser"))
        door.end()


def test_well_and_under_load_it_shows_what_status_and_the_engines_say(seen: Seen) -> None:
    expected = client.learn(seen.at)
    wait_for(lambda: set(seen.words().values()) == {"ok"}, START_S)
    with client.load(seen.at, expected) as load:
        time.sleep(15)
        before, start = counters(seen), time.monotonic()
        # A rate is over a minute.
        time.sleep(65)
        rate = grown(seen, before) / (time.monotonic() - start)
        dom, text = seen.shown("well")
        told = dict(values(dom))
    assert load.failed.total() == load.wrong.total() == 0 and load.answered > 8, load
    # As many clients ask one after the other, so between two requests one may not be there.
    assert 4 <= float(told["Requests that run"]) + float(told["Requests that wait"]) <= 8, told
    assert float(told["Tokens made"].split()[0]) == pytest.approx(rate, rel=0.25), (told, rate)
    assert "Clock; Power; Temperature; GPU busy" in text and not {"Clock", "Power"} & {*told}
    for node in seen.serving:
        assert f"{node.name} ● ok" in text
    assert "tiny-llama ● serves serves since" in text and "✕" not in text
    status = " ".join(seen.watched.verb("status").stdout.split())
    assert status.count(f"{ENGINE} active (running)") == len(seen.serving), status
    assert "does not answer" not in status


def until_it_starts(seen: Seen, node: LabNode) -> None:
    on(node, "docker kill tandem-engine")
    # Its rank has met the others again, or loads.
    wait_for(lambda: seen.words().get(node.name) == "starting", 60)


def test_while_an_engine_starts_that_is_said(seen: Seen) -> None:
    node = seen.answering[-1]
    until_it_starts(seen, node)
    _, text = seen.shown("starting")
    assert f"{node.name} ◐ starting its engine starts, 0 of about 4 minutes" in text, text
    if seen.topology == "replicas":
        assert "◐ serves in part serves since" in text and "with one of two engines" in text, text
        cluster.complete(seen.at)
    else:
        assert "tiny-llama ◐ starting its engine starts, 0 of about 4 minutes" in text and "✕" not in text, text
    wait_for(lambda: set(seen.words().values()) == {"ok"}, START_S)
    assert "● serves" in seen.shown()[1]


def test_while_prometheus_is_dead_the_page_says_so_and_shows_what_it_has_seen(seen: Seen) -> None:
    assert "from Prometheus" in seen.shown()[1]
    on(HEAD, f"systemctl stop {PROMETHEUS}")
    try:
        _, text = seen.shown("without-prometheus")
    finally:
        on(HEAD, f"systemctl start {PROMETHEUS}")
    assert "Prometheus does not answer: what this page has seen itself" in text, text
    assert all(f"{node.name} ● ok" in text for node in seen.serving)


def test_while_a_node_is_dead_the_others_page_says_since_when(seen: Seen) -> None:
    if seen.topology == "solo":
        # The page of a service with one node goes with that node.
        assert list(seen.words()) == [HEAD.name]
        return
    power_off(WORKER)
    cut = time.time()
    try:
        wait_for(lambda: seen.words()[WORKER.name] == "dead", MISSED_S)
        word = "no" if seen.topology == "cluster" else "partly"
        wait_for(lambda: seen.state()["models"][0]["state"] == word, MISSED_S)
        _, text = seen.shown("node-dead")
        status = seen.watched.verb("status").stdout
    finally:
        power_on(WORKER)
        wait_until_up(WORKER)
    since = [time.strftime("%H:%M", time.localtime(cut + late)) for late in (0, MISSED_S)]
    assert any(f"{WORKER.name} ✕ no answer does not answer since {when}" in text for when in since), text
    assert f"{WORKER.name} does not answer" in " ".join(status.split()), status
    if seen.topology == "cluster":
        assert f"✕ does not serve does not serve while {WORKER.name} is away" in text, text
        assert f"its engine lacks {WORKER.name}" in text and "engine answers" not in text, text
    expects: Callable[[], bool] = lambda: set(seen.words().values()) == {"ok"}  # noqa: E731
    wait_for(expects, START_S)


def test_every_panel_s_query_is_answered(seen: Seen) -> None:
    # A test before this one has started it anew.
    wait_for(lambda: seen.course("requests_running", "hour")["from"] == "Prometheus", 60)

    def has_a_rate() -> bool:
        # Of what is asked between two scrapes.
        cluster.complete(seen.at)
        return bool(seen.course("ttft_p50", "hour")["series"])

    wait_for(has_a_rate, 180)
    empty = []
    for panel in seen.state()["panels"]:
        for span in ("hour", "day", "month"):
            told = seen.course(panel["id"], span)
            assert told["from"] == "Prometheus", (panel, told["note"])
            # A month has a point every three hours, and this lab is younger.
            if span == "hour" and not told["series"]:
                empty.append(panel["id"])
    # The lab has no GPU.
    assert empty == ["gpu_clock", "gpu_power", "gpu_temperature", "gpu_busy"]
