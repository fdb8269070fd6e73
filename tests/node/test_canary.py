"""The canary: what it makes of answers, late ones and none, and what it sees of the rails."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from tests.node.shipped import load

canary = load("canary/canary.py")


class FakeEngine(BaseHTTPRequestHandler):
    """An engine that answers as the test says; `moves`: its counter moves with every look at it."""

    late_s, metrics_late_s, status, metrics_status = 0.0, 0.0, 200, 200
    tokens, work, moves, asked = 1, 5.0, False, 0

    def do_POST(self) -> None:
        """One chat completion."""
        self.rfile.read(int(self.headers["Content-Length"]))
        type(self).asked += 1
        time.sleep(self.late_s)
        self.send_response(self.status)
        self.end_headers()
        self.wfile.write(json.dumps({"usage": {"completion_tokens": self.tokens}}).encode())

    def do_GET(self) -> None:
        """/metrics."""
        time.sleep(self.metrics_late_s)
        type(self).work += self.moves
        self.send_response(self.metrics_status)
        self.end_headers()
        self.wfile.write(f'# HELP x\nvllm:prompt_tokens_total{{a="b"}} {self.work}\nother 99\n'.encode())

    def log_message(self, format: str, *arguments: object) -> None:
        """Nothing."""


@pytest.fixture
def engine() -> Iterator[tuple[str, type[FakeEngine]]]:
    kind = type("Engine", (FakeEngine,), {})
    server = ThreadingHTTPServer(("127.0.0.1", 0), kind)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield f"http://127.0.0.1:{server.server_port}", kind
    server.shutdown()
    server.server_close()


def test_a_token_in_time_is_no_problem_and_anything_else_is(engine: tuple[str, type[FakeEngine]]) -> None:
    url, kind = engine
    assert canary.token_problem(url, "m", 2) == ""
    kind.tokens = 0
    assert canary.token_problem(url, "m", 2) == "an answer without a token"
    kind.status = 500
    assert canary.token_problem(url, "m", 2) == "HTTP 500"
    kind.late_s = 1
    assert canary.token_problem(url, "m", 0.2) == "none in 0.2 s"
    assert "refused" in canary.token_problem("http://127.0.0.1:9", "m", 1)


def test_work_is_read_from_the_engine_s_counters(engine: tuple[str, type[FakeEngine]]) -> None:
    url, kind = engine
    assert canary.counters(url, 2) == 5.0
    assert canary.counters("http://127.0.0.1:9", 2) == -1.0
    kind.metrics_late_s = 1
    with pytest.raises(TimeoutError):
        canary.counters(url, 0.2)


def looks(engine: tuple[str, type[FakeEngine]], *changes: dict[str, float]) -> list[str]:
    """What each look at an engine finds wrong, after these changes of it, and a pause of `pause_s`."""
    url, kind = engine
    wanted = {"url": url, "model": "m", "deadline_s": 0.3}
    seen, found = canary.Engine(), []
    for change in changes:
        for name, value in change.items():
            setattr(kind, name, value)
        time.sleep(change.get("pause_s", 0.0))
        found.append(canary.problem_of(seen, wanted, wanted["deadline_s"]))
    return found


def test_an_engine_that_works_is_not_asked_and_an_idle_one_is(engine: tuple[str, type[FakeEngine]]) -> None:
    kind = engine[1]
    assert looks(engine, {}, {"work": 6.0}, {"work": 7.0}) == ["", "", ""]
    assert kind.asked == 1


def test_an_idle_engine_is_asked_at_once_and_then_seldom(engine: tuple[str, type[FakeEngine]]) -> None:
    kind = engine[1]
    # It works, falls idle, stays so, works again, falls idle again.
    assert looks(engine, {}, {"work": 6.0}, {}, {}, {}, {"work": 7.0}, {}) == [""] * 7
    assert kind.asked == 3
    # A rest has an end.
    assert looks(engine, {}, {}, {"pause_s": 0.7}) == [""] * 3
    assert kind.asked == 5


def test_an_engine_that_rests_and_is_gone_is_missed_at_once(engine: tuple[str, type[FakeEngine]]) -> None:
    assert looks(engine, {}, {}, {"status": 500, "metrics_status": 500}) == ["", "", "HTTP 500"]


def test_a_late_answer_of_an_engine_that_works_meanwhile_does_not_count(engine: tuple[str, type[FakeEngine]]) -> None:
    late = {"late_s": 1.0, "pause_s": 0.7}
    assert looks(engine, {}, late) == ["", "none in 0.3 s"]
    engine[1].moves = True
    assert looks(engine, {}, late, {}, {}) == [""] * 4


def test_metrics_that_do_not_come_are_no_sign_of_life(engine: tuple[str, type[FakeEngine]]) -> None:
    assert looks(engine, {}, {"metrics_late_s": 1.0}) == ["", "its metrics do not come in 0.3 s"]


def judged(*problems: str) -> list[str]:
    """Verdicts on an engine that has answered once, and then so, two seconds apart, with six seconds of patience."""
    engine = canary.Engine()
    engine.began("one", 0.0)
    assert engine.judge("", 1.0, 1.0, 600, 6) == ""
    return [engine.judge(problem, 3.0 + 2 * n, 4.0 + 2 * n, 600, 6) for n, problem in enumerate(problems)]


def test_one_that_hangs_is_looked_at_soon_and_one_that_starts_is_left_in_peace() -> None:
    engine = canary.Engine()
    assert canary.pause_s(engine, 1.5) == canary.STARTING_S
    engine.answered_at = 1.0
    assert canary.pause_s(engine, 1.5) == 0.5
    assert canary.pause_s(engine, 30.0) == 10.0
    engine.silent_since = 2.0
    assert canary.pause_s(engine, 30.0) == canary.SOON_S


def test_an_engine_without_a_sign_of_life_is_killed_after_a_time_and_not_before() -> None:
    assert judged("late", "late", "late", "late") == ["", "", "", "kill"]
    assert judged("late", "late", "late", "", "late", "late", "late") == [""] * 7


def test_an_engine_that_loads_has_time_and_not_for_ever() -> None:
    engine = canary.Engine()
    engine.began("one", 0.0)
    assert [engine.judge("refused", now, now, 600, 6) for now in (10.0, 599.0, 601.0)] == ["", "", "kill"]
    engine.began("two", 602.0)
    assert engine.judge("refused", 700.0, 700.0, 600, 6) == ""


def test_ten_minutes_of_service_set_the_count_of_starts_back_once() -> None:
    engine = canary.Engine()
    engine.began("one", 0.0)
    verdicts = [engine.judge("", float(now), float(now), 600, 6) for now in range(100, 1500, 100)]
    assert verdicts.count("settle") == 1
    assert verdicts.index("settle") == 6


WANTED = {"rails": {"railA": {"address": "10.0.0.11/24", "mtu": 9000}}, "url": "http://10.0.0.11:8001"}


def net(tmp_path: Path, carrier: str = "1", mtu: str = "9000") -> Path:
    (tmp_path / "railA").mkdir()
    (tmp_path / "railA/carrier").write_text(carrier)
    (tmp_path / "railA/mtu").write_text(mtu)
    return tmp_path


@pytest.mark.parametrize(
    ("carrier", "mtu", "addresses", "words"),
    [
        ("1", "9000", ["10.0.0.11/24"], []),
        ("0", "9000", ["10.0.0.11/24"], ["has no carrier"]),
        ("1", "1500", ["10.0.0.11/24"], ["has MTU 1500, not 9000"]),
        ("1", "9000", [], ["has not its address 10.0.0.11/24"]),
        ("0", "1500", [], ["has no carrier", "has MTU 1500", "has not its address"]),
    ],
)
def test_what_a_rail_lacks_is_named(
    tmp_path: Path, carrier: str, mtu: str, addresses: list[str], words: list[str]
) -> None:
    problems = canary.rail_problems(WANTED, "railA", net(tmp_path, carrier, mtu), {"railA": addresses})
    assert len(problems) == len(words)
    assert all(word in problem for word, problem in zip(words, problems, strict=True))


def test_a_rail_that_is_gone_is_named(tmp_path: Path) -> None:
    assert canary.rail_problems(WANTED, "railA", tmp_path, {}) == ["the rail railA is not there"]


def test_an_engine_behind_a_cut_rail_is_unreachable_and_does_not_hang(tmp_path: Path) -> None:
    place = net(tmp_path, carrier="0")
    assert "has no carrier" in canary.unreachable(WANTED, place, {"railA": ["10.0.0.11/24"]})
    assert canary.unreachable({**WANTED, "url": "http://127.0.0.1:8001"}, place, {}) == ""
    (place / "railA/carrier").write_text("1")
    (place / "railA/mtu").write_text("1500")
    assert canary.unreachable(WANTED, place, {"railA": ["10.0.0.11/24"]}) == ""
    assert "has not its address" in canary.unreachable(WANTED, place, {"railA": []})


@pytest.mark.parametrize(
    ("ping", "problem", "killed"),
    [
        ("exit 1", "spark-2 does not answer over the rail at 10.0.0.12", False),
        ("exit 0", "none in 0.2 s", True),
        ("", "none in 0.2 s", True),
    ],
    ids=["cut", "not-cut", "no-ping-there"],
)
def test_an_engine_whose_other_rank_can_t_be_reached_is_not_killed(
    engine: tuple[str, type[FakeEngine]],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    ping: str,
    problem: str,
    killed: bool,
) -> None:
    if ping:
        (tmp_path / "ping").write_text(f"#!/bin/sh\n{ping}\n")
        (tmp_path / "ping").chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path))
    said: list[str] = []
    monkeypatch.setattr(canary, "say", said.append)
    wanted = {"url": engine[0], "model": "m", "deadline_s": 0.2, "start_s": 600, "acts": True, "rails": {}}
    wanted["peers"] = {"spark-2": "10.0.0.12"}
    seen = canary.Engine()
    canary.look(seen, wanted, [], {})
    engine[1].late_s, seen.rests_until = 1.0, 0.0
    canary.look(seen, wanted, [], {})
    assert seen.problem == problem
    assert bool(seen.silent_since) == killed
    assert any("it is killed after" in each for each in said) == killed
