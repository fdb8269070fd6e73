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
    """An engine that answers as the test says: `late_s`, `status`, `tokens`, `work`."""

    late_s, status, tokens, work = 0.0, 200, 1, 5.0

    def do_POST(self) -> None:
        """One chat completion."""
        self.rfile.read(int(self.headers["Content-Length"]))
        time.sleep(self.late_s)
        self.send_response(self.status)
        self.end_headers()
        self.wfile.write(json.dumps({"usage": {"completion_tokens": self.tokens}}).encode())

    def do_GET(self) -> None:
        """/metrics."""
        self.send_response(200)
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
    assert canary.counters(engine[0]) == 5.0
    assert canary.counters("http://127.0.0.1:9") == -1.0


def seen(*answers: tuple[str, float]) -> list[str]:
    """Verdicts of an engine that has answered once, and then these: (problem, work), two seconds apart."""
    engine = canary.Engine()
    engine.began("one", 0.0)
    assert engine.judge("", -1.0, 1.0, 600) == ""
    return [engine.judge(problem, work, 3.0 + 2 * n, 600) for n, (problem, work) in enumerate(answers)]


def test_three_late_answers_in_a_row_kill() -> None:
    assert seen(("late", 7), ("late", 7), ("late", 7)) == ["", "", "kill"]
    assert seen(("late", 7), ("", -1), ("late", 7), ("late", 7)) == ["", "", "", ""]
    # Without metrics there is nothing to say that it is busy.
    assert seen(("late", -1), ("late", -1), ("late", -1)) == ["", "", "kill"]


def test_an_engine_that_works_is_busy_and_does_not_hang() -> None:
    assert seen(*(("late", float(n)) for n in range(20))) == [""] * 20
    assert seen(("late", 1), ("late", 2), ("late", 2), ("late", 2)) == ["", "", "", "kill"]


def test_an_engine_that_loads_has_time_and_not_for_ever() -> None:
    engine = canary.Engine()
    engine.began("one", 0.0)
    assert [engine.judge("refused", -1.0, now, 600) for now in (10.0, 599.0, 601.0)] == ["", "", "kill"]
    engine.began("two", 602.0)
    assert engine.judge("refused", -1.0, 700.0, 600) == ""


def test_ten_minutes_of_service_set_the_count_of_starts_back_once() -> None:
    engine = canary.Engine()
    engine.began("one", 0.0)
    verdicts = [engine.judge("", -1.0, float(now), 600) for now in range(100, 1500, 100)]
    assert verdicts.count("settle") == 1
    assert verdicts.index("settle") == 6


RAILS = {"railA": {"address": "10.0.0.11/24", "mtu": 9000}}


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
    problems = canary.rail_problems(RAILS, net(tmp_path, carrier, mtu), {"railA": addresses})
    assert len(problems) == len(words)
    assert all(word in problem for word, problem in zip(words, problems, strict=True))


def test_a_rail_that_is_gone_is_named(tmp_path: Path) -> None:
    assert canary.rail_problems(RAILS, tmp_path, {}) == ["the rail railA is not there"]
