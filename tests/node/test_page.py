"""The page: the real program before doubles of the exporters, asked as a browser, as an owner, and as a stranger."""

from __future__ import annotations

import base64
import json
import re
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.node.page_doubles import ANEW_S, KEY, LOOK_S, Double, Exporter, Page
from tests.node.shipped import FILES
from tests.support.ports import free_port

NODES = ("spark-1", "spark-2")


class Two:
    """Exporters of two nodes, and the page of the first."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.exporters = {name: Exporter() for name in NODES}
        self.urls = {name: f"http://127.0.0.1:{double.server_port}" for name, double in self.exporters.items()}
        self.page: Page | None = None

    def start(self, **more: Any) -> Page:
        self.page = Page(self.folder, self.urls, **more)
        return self.page

    def end(self) -> None:
        if self.page:
            self.page.end()
        for double in self.exporters.values():
            double.end()


@pytest.fixture
def two(tmp_path: Path) -> Iterator[Two]:
    made = Two(tmp_path)
    yield made
    made.end()


def test_without_the_owner_s_key_nothing_is_said(two: Two) -> None:
    page = two.start()
    basic = base64.b64encode(f"anybody:{KEY}".encode()).decode()
    for key in (f"Bearer {KEY}", f"bearer  {KEY}", f"Basic {basic}"):
        assert page.ask("/tandem/state.json", key)[0] == 200
    wrong = base64.b64encode(f"{KEY}:x".encode()).decode()
    for refused in (None, "", "Bearer", f"Bearer {KEY}x", KEY, f"Basic {wrong}", "Basic !!", "Digest x", "Bearer \xff"):
        for path in ("/tandem", "/tandem/", "/tandem/state.json", "/tandem/../x", "/v1/models", "/tandem/page.js"):
            status, body, headers = page.ask(path, refused)
            assert (status, body) == (401, b"")
            assert headers["WWW-Authenticate"].startswith("Basic ") and "Python" not in headers["Server"]
    assert page.ask("/tandem/", None, "POST")[0] == 401


def test_it_is_only_read_and_paths_are_those_of_a_list(two: Two) -> None:
    page = two.start()
    for method in ("POST", "PUT", "DELETE", "PATCH", "OPTIONS", "TRACE", "BREW"):
        assert page.ask("/tandem/", method=method)[0] == 405
    status, body, headers = page.ask("/tandem/", method="HEAD")
    assert (status, body) == (200, b"") and int(headers["Content-Length"]) > 500
    assert headers["Content-Security-Policy"].startswith("default-src 'self'; ")
    assert headers["X-Content-Type-Options"] == "nosniff" and headers["Referrer-Policy"] == "no-referrer"
    assert page.ask("/tandem/state.json")[2]["Cache-Control"] == "no-store"
    for path in (
        *("/tandem/../page.py", "/tandem/page.py", "/tandem/page.json", "/tandem/credentials/key", "/tandem//"),
        *(
            "/tandem/%2e%2e/page.py",
            "/tandem/./index.html",
            "/tandem/INDEX.HTML",
            "/tandemx",
            "/",
            "/tandem/index.html/",
        ),
        *("/tandem/state.json/", "/tandem/..%2fpage.json", "/tandem/state.json%00"),
    ):
        assert page.ask(path)[0] == 404, path


def test_it_says_what_is_declared_and_what_is(two: Two) -> None:
    page = two.start()
    time.sleep(2 * LOOK_S)
    said = page.told("state.json")
    (declared,) = said["plan"]["models"]
    assert declared["topology"] == "replicas" and declared["recipe"] == "nemotron-3-super-nvfp4-auto"
    assert declared["nodes"] == declared["answers"] == list(NODES)
    assert [(node["name"], node["state"]) for node in said["nodes"]] == [(name, "ok") for name in NODES]
    (model,) = said["models"]
    assert model["sentence"].startswith("serves since ") and model["sentence"].endswith(" with two engines")
    assert "engine of" not in said["nodes"][0]["sentence"]
    assert (model["requests_running"], model["requests_waiting"]) == (6, 4)
    assert model["tokens_out"] == pytest.approx(20, rel=0.2)
    assert model["between_p50"] == pytest.approx(0.1, abs=0.01)
    # Nobody has said anything of these.
    assert "ttft_p50" not in model and "prefix_hits" not in model
    node = said["nodes"][0]
    assert node["engines"] == [{"model": "nemotron", "state": "answers", "kv_fill": 25}]
    assert node["clock_hertz"] == 2.281e9 and "power_watts" not in node
    assert node["rails"][0] == {"device": "enp1s0f0np0", "carrier": 1, "speed_bits": 2e11}
    assert node["disks"] == [{"path": "/", "bytes": 1e12, "free_bytes": 5e11}]


def test_a_node_that_is_gone_is_told_and_the_rest_stays(two: Two) -> None:
    page = two.start()
    two.exporters["spark-2"].end()
    time.sleep(ANEW_S)
    began = time.monotonic()
    said = page.told("state.json")
    assert time.monotonic() - began < 4
    assert said["nodes"][0]["state"] == "ok" and said["nodes"][1]["state"] == "dead"
    assert said["nodes"][1]["sentence"].startswith("does not answer since ") and "rails" not in said["nodes"][1]
    assert "with one of two engines; spark-2: does not answer since" in said["models"][0]["sentence"]
    assert said["models"][0]["requests_running"] == 3
    assert page.told("events.json")["missing"] == ["spark-2"]


def test_a_cluster_whose_rank_is_gone_does_not_serve_though_its_engine_says_so(two: Two) -> None:
    page = two.start(topology="cluster", executor="mp")
    two.exporters["spark-2"].end()
    time.sleep(ANEW_S)
    model = page.told("state.json")["models"][0]
    assert model["state"] == "serves" and model["sentence"].endswith("; no word from spark-2"), model
    two.exporters["spark-1"].changes = {'tandem_node_away{node="spark-2"}': "1"}
    time.sleep(ANEW_S)
    model = page.told("state.json")["models"][0]
    assert (model["state"], model["sentence"]) == ("no", "does not serve while spark-2 is away")


def test_a_slow_exporter_keeps_nobody_waiting_and_is_not_taken_for_gone(two: Two) -> None:
    page = two.start()
    assert page.told("state.json")["nodes"][1]["state"] == "ok"
    two.exporters["spark-2"].slow_s = 3
    time.sleep(ANEW_S)
    began = time.monotonic()
    assert page.told("state.json")["nodes"][1]["state"] == "ok"
    assert time.monotonic() - began < 2.9
    two.exporters["spark-2"].slow_s = 30
    # What was slow is in, and old.
    time.sleep(6)
    page.told("state.json")
    time.sleep(6.5)
    assert page.told("state.json")["nodes"][1]["state"] == "dead"


def test_an_engine_that_starts_says_how_far_it_is_and_one_that_hangs_does_not(two: Two) -> None:
    up = 'tandem_source_up{source="engine"}'
    two.exporters["spark-2"].changes = {up: "0"}
    page = two.start()
    said = page.told("state.json")
    assert said["nodes"][1]["state"] == "starting"
    assert said["nodes"][1]["sentence"].startswith("its engine starts, 3 of about ")
    assert "with one of two engines; spark-2: its engine starts, 3 of about" in said["models"][0]["sentence"]
    two.exporters["spark-1"].changes = {up: "0"}
    time.sleep(ANEW_S)
    said = page.told("state.json")
    assert said["nodes"][0]["state"] == "problem" and "does not answer" in said["nodes"][0]["sentence"]
    assert said["models"][0]["state"] == "no"


def test_what_the_canary_says_of_a_start_is_no_problem(two: Two) -> None:
    why = "has not answered yet since its start at 2026-11-25 01:44:01 ([Errno 111] Connection refused)"
    two.exporters["spark-2"].changes = {
        'tandem_source_up{source="engine"}': "0",
        f'tandem_problem{{of="engine",why="{why}"}}': "1",
    }
    page = two.start()
    said = page.told("state.json")["nodes"][1]
    assert said["state"] == "starting" and said["sentence"].startswith("its engine starts, 3 of about "), said
    two.exporters["spark-2"].changes = {
        'tandem_source_up{source="engine"}': "0",
        'tandem_problem{of="engine",why="waits for rank 1 (spark-1)"}': "1",
    }
    time.sleep(ANEW_S)
    said = page.told("state.json")["nodes"][1]
    assert (said["state"], said["sentence"]) == ("starting", "its engine waits for rank 1 (spark-1)"), said


def test_what_canary_and_fallback_say_is_told(two: Two) -> None:
    two.exporters["spark-1"].changes = {'tandem_alone{why="serves alone since 03:00"}': "1"}
    two.exporters["spark-2"].changes = {'tandem_problem{of="rails",why="the rail x has no carrier"}': "1"}
    said = two.start(topology="cluster", executor="mp", fallback="solo").told("state.json")
    assert [node["state"] for node in said["nodes"]] == ["alone", "problem"]
    assert "the rail x has no carrier" in said["nodes"][1]["sentence"]
    assert said["models"][0]["state"] == "alone" and said["models"][0]["sentence"].endswith("by spark-1 alone")


def test_charts_come_from_prometheus_or_from_what_was_seen(two: Two) -> None:
    step = 15
    now = int(time.time() / step) * step
    row = {"metric": {"model_name": "nemotron"}, "values": [[now - step, "7"], [now - 2 * step, "NaN"]]}
    prometheus = Double({"/api/v1/query_range": lambda: json.dumps({"status": "success", "data": {"result": [row]}})})
    page = two.start(prometheus=f"http://127.0.0.1:{prometheus.server_port}")
    said = page.told("series.json?panel=tokens_out&span=hour")
    assert (said["from"], said["note"]) == ("Prometheus", "")
    assert len(said["times"]) == len(said["series"][0]["values"]) == 241
    assert {7.0, None} == {*said["series"][0]["values"]}
    prometheus.end()
    time.sleep(LOOK_S)
    for span in ("hour", "month"):
        said = page.told(f"series.json?panel=requests_running&span={span}")
        assert said["from"] == "memory" and "Prometheus does not answer" in said["note"]
        assert said["series"] == [{"name": "nemotron", "values": [6.0] * len(said["times"])}] and said["times"]


def test_a_prometheus_that_hangs_is_given_up_before_the_browser_gives_up(two: Two) -> None:
    waits = re.search(r"WAIT_MS = (\d+)", (FILES / "page/static/asked.js").read_text())
    assert waits
    prometheus = Double({})
    prometheus.slow_s = 60
    page = two.start(prometheus=f"http://127.0.0.1:{prometheus.server_port}")
    began = time.monotonic()
    said = page.told("series.json?panel=requests_running&span=hour")
    assert said["from"] == "memory" and "Prometheus is too slow" in said["note"]
    assert time.monotonic() - began < int(waits[1]) / 1000 - 1
    prometheus.end()


def test_five_who_look_at_a_heavy_month_are_one_question_and_get_its_answer(two: Two) -> None:
    asked: list[float] = []
    row = {"metric": {"model_name": "nemotron"}, "values": [[int(time.time() / 7200) * 7200, "0.5"]]}

    def heavy() -> str:
        asked.append(time.monotonic())
        time.sleep(3.5)
        return json.dumps({"status": "success", "data": {"result": [row]}})

    prometheus = Double({"/api/v1/query_range": heavy})
    page = two.start(prometheus=f"http://127.0.0.1:{prometheus.server_port}")
    said = [page.told("series.json?panel=between_p99&span=month") for _ in range(2)]
    assert [each["from"] for each in said] == ["memory", "memory"]
    assert all("Prometheus is too slow" in each["note"] for each in said), said[0]["note"]
    time.sleep(4)
    said = [page.told("series.json?panel=between_p99&span=month") for _ in range(5)]
    assert [each["from"] for each in said] == ["Prometheus"] * 5 and len(asked) == 1
    prometheus.end()


@pytest.mark.parametrize(
    "query", ["", "panel=x", "panel=tokens_out&span=year", "panel=tokens_out&panel=tokens_in", "panel=tokens_out&a=1"]
)
def test_a_question_that_is_none_is_told_in_one_line(two: Two, query: str) -> None:
    status, body, _ = two.start().ask(f"/tandem/series.json?{query}")
    assert status == 400 and body.count(b"\n") == 1 and b"<" not in body


def test_what_happened_is_told_with_its_node(two: Two) -> None:
    page = two.start()
    page.told("state.json")
    said = page.told("events.json")
    assert {each["node"] for each in said["events"]} == set(NODES) and said["missing"] == []
    assert said["events"][0]["text"] == "tandem-guard: <b>killed</b>"


def test_a_node_that_has_never_answered_has_no_figures(two: Two, tmp_path: Path) -> None:
    two.urls["spark-2"] = f"http://127.0.0.1:{free_port()}"
    said = two.start().told("state.json")
    assert said["nodes"][1] == {
        "name": "spark-2",
        "state": "dead",
        "engines": [{"model": "nemotron", "state": "unknown"}],
        "sentence": said["nodes"][1]["sentence"],
    }


def test_a_model_that_loads_is_starting_with_how_far_it_is_and_not_broken(two: Two) -> None:
    up = 'tandem_source_up{source="engine"}'
    for each in two.exporters.values():
        each.changes = {up: "0"}
    page = two.start(topology="cluster", executor="mp")
    (model,) = page.told("state.json")["models"]
    assert model["state"] == "starting" and model["sentence"].startswith("its engine starts, 3 of about 30 "), model
    assert model["progress"] == pytest.approx(200 / 60 / 30, abs=0.02)
    # It waits for another node: nobody knows for how long.
    waits: dict[str, str | None] = {up: "0", 'tandem_problem{of="engine",why="waits for rank 1 (spark-2)"}': "1"}
    two.exporters["spark-1"].changes = waits
    time.sleep(ANEW_S)
    (model,) = page.told("state.json")["models"]
    assert (model["state"], model["sentence"]) == ("starting", "its engine waits for rank 1 (spark-2)")
    assert "progress" not in model
    # The node that it waits for is off: that is no start.
    two.exporters["spark-2"].end()
    time.sleep(ANEW_S)
    assert page.told("state.json")["models"][0]["state"] == "no"


def test_an_engine_that_lacks_a_node_says_the_same_as_its_model(two: Two) -> None:
    page = two.start(topology="cluster", executor="mp")
    assert page.told("state.json")["nodes"][0]["engines"][0]["state"] == "answers"
    two.exporters["spark-2"].end()
    two.exporters["spark-1"].changes = {'tandem_node_away{node="spark-2"}': "1"}
    time.sleep(ANEW_S)
    said = page.told("state.json")
    assert said["models"][0]["sentence"] == "does not serve while spark-2 is away"
    node = said["nodes"][0]
    assert (node["state"], node["engines"][0]["state"]) == ("problem", "lacks"), node
    assert node["sentence"] == "its engine lacks spark-2"


def test_the_zone_is_the_node_s(two: Two) -> None:
    said = two.start().told("state.json")
    assert (said["zone"], said["zone_offset_s"]) == (time.strftime("%Z"), time.localtime().tm_gmtoff)
