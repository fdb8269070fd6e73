"""Charts that are kept, engines that hang for long, and a clock that is set back: what the page makes of them."""

from __future__ import annotations

import json
import threading
import time
import urllib.error
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from operations.plan.services.panels import dashboard, panels, panels_of
from tests.node.page_doubles import ANEW_S, Exporter, Page
from tests.node.shipped import part
from tests.support.serving import saying

asking, memory, nodes, reading, series = (
    part("page", name) for name in ("asking", "last_hour", "nodes", "reading", "series")
)
GAUGE = next(panel for panel in panels("vllm") if panel["id"] == "requests_running")
MODEL = {"model": "nemotron", "unit": "tandem-engine", "load_minutes": 4, "nodes": ["n"], "answers": ["n"]}


class Asked:
    """In the place of Prometheus: what is asked of it, and how long it takes."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.urls: list[str] = []
        self.takes_s, self.error = 0.0, None
        self.go_on = threading.Event()
        self.rows = True
        self._lock = threading.Lock()
        monkeypatch.setattr(series, "fetched", self.fetched)

    def fetched(self, url: str, wait_s: float) -> str:
        with self._lock:
            self.urls.append(url)
        self.go_on.wait(self.takes_s)
        if self.error:
            raise self.error
        step = int(url.rpartition("=")[2])
        row = {"metric": {"model_name": "m"}, "values": [[int(time.time() / step) * step, "7"]]}
        return json.dumps({"status": "success", "data": {"result": [row] if self.rows else []}})


@pytest.fixture
def prometheus(monkeypatch: pytest.MonkeyPatch) -> Asked:
    monkeypatch.setattr(series, "WAIT_S", 0.3)
    return Asked(monkeypatch)


@pytest.fixture
def charts() -> Any:
    return series.Charts("http://prometheus", memory.Memory([GAUGE]))


def test_an_answer_is_kept_for_a_step_of_its_span(
    prometheus: Asked, charts: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    real = time.time
    start = int(real() / 7200) * 7200 + 10.0
    now = [start]
    monkeypatch.setattr(time, "time", lambda: now[0])
    for _ in range(5):
        assert charts.told(GAUGE, "month")["from"] == "Prometheus"
    assert len(prometheus.urls) == 1
    now[0] = start + 20
    assert charts.told(GAUGE, "month")["from"] == "Prometheus" and len(prometheus.urls) == 1
    charts.told(GAUGE, "hour")
    now[0] = start + 40
    charts.told(GAUGE, "hour")
    assert len(prometheus.urls) == 3
    now[0] = start + 7200
    charts.told(GAUGE, "month")
    assert len(prometheus.urls) == 4


def test_many_who_ask_the_same_are_one_question(prometheus: Asked, charts: Any) -> None:
    prometheus.takes_s = 0.2
    found: list[Any] = []
    threads = [threading.Thread(target=lambda: found.append(charts.told(GAUGE, "month"))) for _ in range(5)]
    for each in threads:
        each.start()
    for each in threads:
        each.join()
    assert [each["from"] for each in found] == ["Prometheus"] * 5 and len(prometheus.urls) == 1


def test_a_heavy_question_is_too_slow_and_its_answer_is_there_later(prometheus: Asked, charts: Any) -> None:
    prometheus.takes_s = 20.0
    began = time.monotonic()
    said = charts.told(GAUGE, "month")
    assert time.monotonic() - began < 10 and said["from"] == "memory"
    assert "Prometheus is too slow" in said["note"] and "does not answer" not in said["note"]
    assert charts.told(GAUGE, "month")["from"] == "memory" and len(prometheus.urls) == 1
    prometheus.go_on.set()
    end = time.monotonic() + 5
    while charts.told(GAUGE, "month")["from"] != "Prometheus":
        assert time.monotonic() < end
        time.sleep(0.05)
    assert len(prometheus.urls) == 1


def test_no_more_than_a_few_questions_are_under_way(prometheus: Asked) -> None:
    prometheus.takes_s = 20.0
    listed = panels("vllm")
    charts = series.Charts("http://prometheus", memory.Memory(listed))
    for panel in listed[:10]:
        assert charts.told(panel, "month")["from"] == "memory"
    assert len(prometheus.urls) == series.AT_ONCE < 10
    prometheus.go_on.set()


@pytest.mark.parametrize(
    ("error", "note"),
    [
        (ConnectionRefusedError("refused"), "Prometheus does not answer"),
        (TimeoutError("timed out"), "Prometheus is too slow"),
        (urllib.error.URLError(TimeoutError("timed out")), "Prometheus is too slow"),
        (urllib.error.HTTPError("x", 503, "x", Any, None), "Prometheus refuses this (503)"),  # type: ignore[arg-type]
    ],
)
def test_why_there_is_no_answer_is_told(prometheus: Asked, charts: Any, error: Exception, note: str) -> None:
    prometheus.error = error  # type: ignore[assignment]
    said = charts.told(GAUGE, "day")
    assert said["from"] == "memory" and said["note"].startswith(f"{note}: "), said["note"]


def test_what_prometheus_said_before_is_better_than_an_hour_for_a_month(
    prometheus: Asked, charts: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    real = time.time
    charts.told(GAUGE, "month")
    prometheus.error = ConnectionRefusedError("refused")  # type: ignore[assignment]
    monkeypatch.setattr(time, "time", lambda: real() + 7200)
    said = charts.told(GAUGE, "month")
    assert said["from"] == "Prometheus" and said["note"].startswith("Prometheus does not answer: what it said at ")


def test_an_empty_answer_is_asked_again_soon(prometheus: Asked, charts: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    prometheus.rows = False
    now = [int(time.time() / 7200) * 7200 + 10.0]
    monkeypatch.setattr(time, "time", lambda: now[0])
    assert charts.told(GAUGE, "month")["series"] == []
    now[0] += 20
    prometheus.rows = True
    assert charts.told(GAUGE, "month")["series"]


def test_a_gauge_of_long_spans_is_of_all_that_lies_between_two_points(prometheus: Asked, charts: Any) -> None:
    for span, expr in (
        ("hour", "sum+by+%28model_name%29+%28vllm%3Anum_requests_running%29"),
        ("day", "sum+by+%28model_name%29+%28avg_over_time%28vllm%3Anum_requests_running%5B300s%5D%29%29"),
        ("month", "sum+by+%28model_name%29+%28avg_over_time%28vllm%3Anum_requests_running%5B7200s%5D%29%29"),
    ):
        charts.told(GAUGE, span)
        assert f"query={expr}&" in prometheus.urls[-1]
    long = {panel["id"]: panel["long"] for panel in panels_of(("vllm", "sglang")) if "long" in panel}
    assert long["memory_available"].startswith("(min by (node) (min_over_time(tandem_memory_available_bytes[1m])))")
    assert "max_over_time(sglang:token_usage[1m])" in long["kv_fill"] and " or " in long["kv_fill"]
    assert "tokens_out" not in long and "_over_time" not in json.dumps(dashboard())


def engine_of(watch: Any, up: int, since: float, stamp: float, **more: str) -> Any:
    unit = {"unit": "tandem-engine"}
    values = {
        "tandem_unit_active": [(unit, 1.0)],
        "tandem_unit_active_since_seconds": [(unit, since)],
        "tandem_unit_active_after_boot_seconds": [(unit, stamp)],
        "tandem_source_up": [({"source": "engine"}, float(up))],
        "tandem_problem": [({"of": of, "why": why}, 1.0) for of, why in more.items()],
    }
    return watch.engine(MODEL, asking.Heard("n", reading.Reading(time.time(), values), None))


def test_an_engine_that_hangs_is_silent_though_the_clock_was_set() -> None:
    watch, since = nodes.Watch(), time.time() - 120
    assert engine_of(watch, 1, since, 77.25).state == "answers"
    assert engine_of(watch, 0, since + 1, 77.25).state == "silent"
    # It was started anew.
    assert engine_of(watch, 0, time.time(), 99.5).state == "starts"


def test_an_engine_that_never_ends_its_start_is_silent_also_for_a_page_that_has_just_begun() -> None:
    watch = nodes.Watch()
    assert engine_of(watch, 0, time.time() - 8 * 60, 1.0).state == "starts"
    assert engine_of(watch, 0, time.time() - 13 * 60, 1.0).state == "starts"
    found = engine_of(watch, 0, time.time() - 2880 * 60, 1.0)
    assert found.state == "silent" and found.word == "problem" and "does not answer" in found.sentence


def test_an_engine_that_has_waited_for_its_ranks_begins_its_start_then() -> None:
    watch, since = nodes.Watch(), time.time() - 7200
    assert engine_of(watch, 0, since, 1.0, engine="waits for rank 1 (spark-2)").state == "starts"
    assert engine_of(watch, 0, since, 1.0).state == "starts"


def test_a_clock_that_is_set_back_leaves_times_that_only_grow(monkeypatch: pytest.MonkeyPatch) -> None:
    kept, now = memory.Memory([GAUGE]), [10_000.0]
    monkeypatch.setattr(time, "time", lambda: now[0])

    def look() -> None:
        values = {"vllm:num_requests_running": [({"model_name": "m"}, 1.0)]}
        kept.add({"n": reading.Reading(now[0], values)})

    for _ in range(6):
        look()
        now[0] += 10
    now[0] = 10_025.0
    # Before the next look there is something ahead already.
    assert kept.series("requests_running")[0] == [10_000.0, 10_010.0, 10_020.0]
    look()
    now[0] += 10
    look()
    times, values = kept.series("requests_running")
    assert times == [10_000.0, 10_010.0, 10_020.0, 10_025.0, 10_035.0] and len(values["m"]) == 5


def test_a_rate_is_not_taken_between_two_clocks(monkeypatch: pytest.MonkeyPatch) -> None:
    panel = next(panel for panel in panels("vllm") if panel["id"] == "tokens_out")
    kept, now = memory.Memory([panel]), [10_000.0]
    monkeypatch.setattr(time, "time", lambda: now[0])

    def look(tokens: float) -> Any:
        return {"n": reading.Reading(now[0], {panel["metric"]: [({"model_name": "m"}, tokens)]})}

    kept.add(look(0))
    now[0] -= 30
    kept.add(look(100))
    # Ten tokens a second; by the first look's clock it would be far more.
    now[0] += 40
    assert kept.figures(look(500))["tokens_out"] == {"m": 10.0}


def test_an_answer_that_breaks_off_is_none() -> None:
    said = b"HTTP/1.1 200 OK\r\nContent-Length: 900\r\n\r\ntandem_memory_bytes 1\n"
    with saying(said) as url, pytest.raises(OSError, match="broke off"):
        asking.fetched(f"{url}/", 5)


@pytest.fixture
def lone(tmp_path: Path) -> Iterator[tuple[Page, dict[str, Exporter]]]:
    exporters = {name: Exporter() for name in ("spark-1", "spark-2")}
    page = Page(tmp_path, {name: f"http://127.0.0.1:{each.server_port}" for name, each in exporters.items()})
    yield page, exporters
    page.end()
    for each in exporters.values():
        each.end()


def test_the_real_page_calls_an_engine_that_hung_long_ago_silent(lone: tuple[Page, dict[str, Exporter]]) -> None:
    page, exporters = lone
    exporters["spark-2"].changes = {
        'tandem_source_up{source="engine"}': "0",
        'tandem_unit_active_since_seconds{unit="tandem-engine"}': repr(time.time() - 2880 * 60),
    }
    time.sleep(ANEW_S)
    node = page.told("state.json")["nodes"][1]
    assert node["state"] == "problem" and "starts" not in node["sentence"], node


def test_how_far_a_start_is_goes_by_the_last_one_of_the_same_plan_and_not_by_the_recipe() -> None:
    begun = {"tandem_unit_active": [({"unit": "tandem-engine"}, 1.0)]}
    begun["tandem_unit_active_since_seconds"] = [({"unit": "tandem-engine"}, time.time() - 300)]

    def engine(**starts: float) -> Any:
        told = {f"tandem_start_{name}_seconds": [({"unit": "tandem-engine"}, value)] for name, value in starts.items()}
        heard = asking.Heard("n", reading.Reading(time.time(), {**begun, **told}), None)
        return nodes.Watch().engine(MODEL, heard)

    assert (engine().does, engine().progress) == ("starts, 5 of about 4 minutes", 1.0)
    known = engine(last=600.0, longest=900.0)
    assert known.does == "starts, 5 of about 10 minutes" and known.progress == pytest.approx(0.5, abs=0.01)
    begun["tandem_unit_active_since_seconds"] = [({"unit": "tandem-engine"}, time.time() - 1200)]
    # Twice the longest start that is known, not twice the recipe's four minutes and ten.
    assert engine().state == "silent" and engine(last=600.0, longest=900.0).state == "starts"
