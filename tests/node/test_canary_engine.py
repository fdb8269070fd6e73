"""The canary's watch over an engine: what is a sign of life, what is a hang, and how often it is asked."""

from __future__ import annotations

import itertools
import json
import re
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from operations.plan.engines import ENGINES
from operations.plan.engines.base import Signs
from tests.node.shipped import part
from tests.support.ports import free_port
from tests.support.serving import Quiet, saying, serving

node, rails, engine = part("canary", "node"), part("canary", "rails"), part("canary", "engine")

DEADLINE_S, SILENCE_S, MUTE_S = 0.3, 0.9, 1.8


@dataclass
class FakeEngine:
    """What an engine would say: metrics of vLLM 0.32 (as its loggers write them), and one token a question."""

    url: str = ""
    #: While `prefills`, each look finds the KV cache fuller and nothing else changed, and a question waits.
    prefills: bool = False
    #: While it `decodes`, its counters move.
    decodes: bool = False
    #: It takes questions, and its core says nothing any more; metrics come.
    hangs: bool = False
    metrics_late_s: float = 0.0
    status: int = 200
    tokens: int = 1
    asked: int = 0
    counted: int = 5
    #: The model's name in the last question.
    model: str = ""
    fill: float = 0.0
    #: Another engine's metrics.
    metrics: Callable[[], str] | None = None
    free: threading.Event = field(default_factory=threading.Event)

    def said(self) -> str:
        """The answer to /metrics."""
        self.fill += 0.001 if self.prefills else 0.0
        self.counted += self.decodes
        labels = '{engine="0",model_name="m"}'
        return (
            "# TYPE vllm:kv_cache_usage_perc gauge\n"
            f"vllm:num_requests_running{labels} {float(self.prefills or self.hangs)}\n"
            f"vllm:num_requests_waiting{labels} 0.0\n"
            f"vllm:kv_cache_usage_perc{labels} {self.fill}\n"
            f"vllm:prompt_tokens_total{labels} {self.counted}.0\n"
            f"vllm:generation_tokens_total{labels} {self.counted}.0\n"
            f"vllm:iteration_tokens_total_count{labels} {self.counted}.0\n"
            f"http_requests_total {time.monotonic()}\nprocess_cpu_seconds_total {time.monotonic()}\n"
        )

    def answer(self) -> None:
        """A question is answered when neither a prompt nor a hang is before it."""
        self.asked += 1
        while (self.prefills or self.hangs) and not self.free.wait(0.02):
            pass
        self.counted += 1


@pytest.fixture
def fake() -> Iterator[FakeEngine]:
    made = FakeEngine()

    class Handler(Quiet):
        def do_POST(self) -> None:
            made.model = self.sent()["model"]
            made.answer()
            with suppress(OSError):
                self.reply(json.dumps({"usage": {"completion_tokens": made.tokens}}).encode(), made.status)

        def do_GET(self) -> None:
            made.free.wait(made.metrics_late_s)
            with suppress(OSError):
                self.reply((made.metrics() if made.metrics else made.said()).encode())

    with serving(Handler) as made.url:
        yield made
        made.free.set()


class Kept:
    """A watch as it runs, with what it kills and forgives; its time is real and short."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, url: str, signs: Signs, **changes: Any) -> None:
        self.killed: list[float] = []
        self.forgiven: list[str] = []
        self.said: list[str] = []
        monkeypatch.setattr(node, "kill", self.kill)
        monkeypatch.setattr(node, "reset_restart_count", self.forgiven.append)
        monkeypatch.setattr(node, "say", self.said.append)
        #: Of the engine's container.
        self.labels: dict[str, str] = {}
        monkeypatch.setattr(node, "labels", lambda _: self.labels)
        self.invocation: Callable[[], str | None] = lambda: "one"
        monkeypatch.setattr(node, "invocation", lambda *_, **__: self.invocation())
        watch = part("canary", "watch")
        monkeypatch.setattr(watch, "STARTING_S", 0.1)
        monkeypatch.setattr(watch, "SOON_S", 0.05)
        monkeypatch.setattr(engine, "SOON_S", 0.05)
        monkeypatch.setattr(watch, "AFTER_S", 0.0)
        wanted = {
            "url": url,
            "model": "m",
            "answers": "chat",
            "acts": True,
            "deadline_s": DEADLINE_S,
            "silence_s": SILENCE_S,
            "mute_s": MUTE_S,
            "start_s": 600.0,
            "signs": {"path": signs.path, "pattern": signs.pattern},
            "meeting": None,
            "peers": {"spark-2": "10.0.0.12"},
            **changes,
        }
        self.rails = rails.Rails({}, {})
        self.watch = engine.Engine(wanted, self.rails)

    def kill(self, _: str) -> bool:
        self.killed.append(time.monotonic())
        return True

    def run(self, seconds: float) -> Kept:
        """Look for so long, or until it kills."""
        end, kills = time.monotonic() + seconds, len(self.killed)
        while time.monotonic() < end and len(self.killed) == kills:
            self.watch.turn()
        return self


Keep = Callable[..., Kept]


@pytest.fixture
def keep(fake: FakeEngine, monkeypatch: pytest.MonkeyPatch) -> Keep:
    """A watch over the fake engine, which has answered once."""

    def make(kind: str = "vllm", **changes: Any) -> Kept:
        kept = Kept(monkeypatch, changes.pop("url", fake.url), ENGINES[kind].SIGNS, **changes)
        return kept.run(0.3)

    return make


def test_an_engine_that_prefills_for_long_is_not_killed_and_asked_once(fake: FakeEngine, keep: Keep) -> None:
    kept = keep()
    fake.prefills = True
    kept.run(6 * SILENCE_S)
    assert kept.killed == []
    assert kept.watch.problem == ""
    # One question went before, one may have been asked in the moment in which the prompt came.
    assert fake.asked <= 2


def test_without_the_gauges_that_prefill_would_be_a_hang(
    fake: FakeEngine, keep: Keep, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The double above says what it shall: its counters stand, and a question waits."""
    counters = Signs("/metrics", r"^vllm:(?:prompt_tokens_total|generation_tokens_total)\{.*\} \S+$")
    monkeypatch.setitem(ENGINES, "vllm", type("Counters", (), {"SIGNS": counters})())
    kept = keep()
    fake.prefills = True
    kept.run(3)
    assert len(kept.killed) == 1


def test_one_that_hangs_with_a_request_in_flight_is_killed_after_three_deadlines(fake: FakeEngine, keep: Keep) -> None:
    kept = keep()
    fake.prefills = True
    kept.run(2 * SILENCE_S)
    fake.prefills, fake.hangs = False, True
    begun = time.monotonic()
    kept.run(5)
    assert len(kept.killed) == 1
    # The last look that saw a sign may have been a little before.
    assert SILENCE_S - DEADLINE_S / 3 - 0.1 < kept.killed[0] - begun < SILENCE_S + DEADLINE_S
    assert "no answer for" in kept.watch.killed


def test_one_that_hangs_while_idle_is_killed_three_deadlines_after_the_next_question(
    fake: FakeEngine, keep: Keep
) -> None:
    kept = keep()
    fake.hangs = True
    begun = time.monotonic()
    kept.run(5)
    assert len(kept.killed) == 1
    assert kept.killed[0] - begun < SILENCE_S + (engine.REST + 1) * DEADLINE_S


def test_one_whose_metrics_do_not_come_is_killed(fake: FakeEngine, keep: Keep) -> None:
    kept = keep()
    fake.metrics_late_s = 60.0
    begun = time.monotonic()
    kept.run(5)
    assert len(kept.killed) == 1
    assert kept.killed[0] - begun < SILENCE_S + DEADLINE_S
    assert "its metrics do not come" in kept.watch.killed


def test_an_engine_that_works_is_not_asked(fake: FakeEngine, keep: Keep) -> None:
    fake.decodes = True
    kept = keep().run(2)
    assert (fake.asked, kept.killed) == (1, [])
    assert kept.watch.works()
    fake.hangs, fake.decodes = True, False
    assert not kept.run(2 * DEADLINE_S).watch.works()


def test_an_idle_engine_is_asked_seldom_although_its_own_token_moves_its_signs(fake: FakeEngine, keep: Keep) -> None:
    keep().run(3)
    # At once, and then each rest and what of a look is left.
    assert 3 <= fake.asked <= 3.3 / (engine.REST * DEADLINE_S) + 1


def test_an_engine_that_has_just_fallen_idle_is_asked_at_once(fake: FakeEngine, keep: Keep) -> None:
    fake.decodes = True
    kept = keep()
    fake.decodes = False
    for _ in range(5):
        if fake.asked < 2:
            kept.watch.turn()
    assert fake.asked == 2


def test_an_engine_that_rests_and_is_gone_is_missed_at_once(fake: FakeEngine, keep: Keep) -> None:
    kept = keep()
    kept.watch.signs.url, kept.watch.url = "http://127.0.0.1:9/metrics", "http://127.0.0.1:9"
    kept.run(DEADLINE_S)
    assert "refused" in kept.watch.problem
    assert any("it is killed after 0.9 s" in line for line in kept.said)


@pytest.mark.parametrize(("status", "tokens", "problem"), [(500, 1, "HTTP 500"), (200, 0, "an answer without a token")])
def test_an_answer_without_a_token_is_no_sign_of_life(
    fake: FakeEngine, keep: Keep, status: int, tokens: int, problem: str
) -> None:
    fake.status, fake.tokens = status, tokens
    kept = keep()
    assert kept.watch.ask() == problem
    assert problem in kept.watch.problem


def test_an_engine_that_tells_nothing_of_itself_has_the_patience_of_its_longest_prompt(
    fake: FakeEngine, keep: Keep
) -> None:
    fake.metrics = lambda: "process_cpu_seconds_total 1.0\n"
    kept = keep()
    fake.hangs = True
    begun = time.monotonic()
    kept.run(6)
    assert len(kept.killed) == 1
    assert kept.killed[0] - begun > MUTE_S - 0.1


def test_tensorrt_llm_tells_of_each_iteration_once(fake: FakeEngine, keep: Keep) -> None:
    iterations = iter(range(1, 10_000))
    fake.metrics = lambda: json.dumps([{"iter": next(iterations), "numActiveRequests": 1}] if fake.prefills else [])
    kept = keep("tensorrt-llm")
    fake.prefills = True
    kept.run(3 * MUTE_S)
    assert kept.killed == []
    fake.prefills, fake.hangs = False, True
    begun = time.monotonic()
    kept.run(5)
    assert len(kept.killed) == 1
    assert kept.killed[0] - begun < SILENCE_S + DEADLINE_S


def test_one_that_never_answers_is_killed_after_the_time_of_a_start(keep: Keep) -> None:
    kept = keep(url="http://127.0.0.1:9", start_s=0.6)
    assert kept.killed == []
    assert re.search(r"has not answered yet since its start at \d{4}-\d\d-\d\d \d\d:", kept.watch.problem)
    kept.run(3)
    assert len(kept.killed) == 1


def test_a_start_begins_when_all_ranks_are_there(keep: Keep, tmp_path: Path) -> None:
    mark = tmp_path / "meeting.json"
    mark.write_text(json.dumps({"met": False, "missing": [1]}))
    meeting = {"mark": str(mark), "ranks": ["spark-1", "spark-2"]}
    kept = keep(url="http://127.0.0.1:9", start_s=0.6, meeting=meeting).run(2)
    assert (kept.killed, kept.watch.problem) == ([], "waits for rank 1 (spark-2)")
    mark.write_text(json.dumps({"met": False, "missing": [], "asks": "7"}))
    kept.run(2)
    assert (kept.killed, kept.watch.problem) == ([], "waits for its turn to load")
    mark.write_text(json.dumps({"met": True, "missing": []}))
    begun = time.monotonic()
    kept.run(3)
    assert len(kept.killed) == 1
    assert kept.killed[0] - begun > 0.5


def test_the_rank_that_does_not_answer_clients_kills_nobody(fake: FakeEngine, keep: Keep) -> None:
    kept = keep(acts=False)
    fake.hangs, fake.metrics_late_s = True, 60.0
    kept.run(3)
    assert kept.killed == []
    assert "its metrics do not come" in kept.watch.problem
    fake.hangs, fake.metrics_late_s = False, 0.0
    assert kept.run(1).watch.problem == ""
    kept.watch.signs.url = "http://127.0.0.1:9/metrics"
    assert "refused" in kept.run(1).watch.problem


def test_only_the_node_that_acts_asks_so_that_no_two_wake_each_other(fake: FakeEngine, keep: Keep) -> None:
    keep(acts=False).run(2)
    assert fake.asked == 0


def test_one_whose_other_rank_is_away_is_not_judged_and_then_has_its_patience_again(
    fake: FakeEngine, keep: Keep
) -> None:
    kept = keep()
    kept.rails.away = {"spark-2": "14:02:11"}
    fake.hangs = True
    kept.run(3 * SILENCE_S)
    assert (kept.killed, kept.watch.problem) == ([], "is not judged while spark-2 is away")
    kept.rails.away = {}
    begun = time.monotonic()
    kept.run(5)
    assert len(kept.killed) == 1
    assert kept.killed[0] - begun > SILENCE_S - 0.1


def test_ten_minutes_of_service_set_the_count_of_starts_back_once(
    keep: Keep, fake: FakeEngine, monkeypatch: pytest.MonkeyPatch
) -> None:
    fake.decodes = True
    monkeypatch.setattr(engine.Engine, "SETTLED_S", 1.0)
    kept = keep()
    assert kept.forgiven == []
    assert kept.run(2).forgiven == ["tandem-engine"]


def test_another_start_is_another_engine(fake: FakeEngine, keep: Keep) -> None:
    kept = keep()
    assert kept.watch.answered_at
    kept.watch.step("two")
    assert not kept.watch.answered_at
    kept.watch.step("")
    assert kept.watch.problem == ""


@pytest.mark.parametrize("answers", [itertools.cycle(["one", None]), itertools.chain(["one"], itertools.repeat(None))])
def test_a_systemd_that_does_not_say_makes_no_other_engine(
    fake: FakeEngine, keep: Keep, answers: Iterator[str | None]
) -> None:
    kept = keep()
    fake.hangs = True
    kept.invocation = lambda: next(answers)
    kept.run(5)
    assert len(kept.killed) == 1


def test_one_that_hangs_already_when_the_canary_comes_has_the_patience_of_a_first_token(
    fake: FakeEngine, keep: Keep
) -> None:
    fake.hangs = True
    begun = time.monotonic()
    kept = keep().run(5)
    assert len(kept.killed) == 1
    assert MUTE_S - 0.1 < kept.killed[0] - begun < MUTE_S + DEADLINE_S
    assert "no sign of life for 1.8 s" in kept.watch.killed


@pytest.mark.parametrize("said", [b"HTTP/1.1 200 OK\r\nContent-Length: 5000\r\n\r\nvllm:num_r", b"no HTTP\r\n\r\n"])
def test_an_answer_that_breaks_off_is_none(keep: Keep, said: bytes) -> None:
    with saying(said) as url:
        kept = keep(url=url)
        with pytest.raises(OSError):
            kept.watch.signs.moved(1)
        assert "has not answered yet since its start" in kept.watch.problem
        assert re.search("IncompleteRead|no HTTP", kept.watch.ask())


def test_a_kill_that_docker_does_not_do_is_tried_again(
    fake: FakeEngine, keep: Keep, monkeypatch: pytest.MonkeyPatch
) -> None:
    kept = keep()
    tries: list[str] = []

    def fail(name: str) -> bool:
        tries.append(name)
        return False

    monkeypatch.setattr(node, "kill", fail)
    fake.hangs = True
    end = time.monotonic() + 30
    while len(tries) < 2 and time.monotonic() < end:
        kept.watch.turn()
    assert len(tries) == 2
    assert any("Docker has not killed the engine's container" in line for line in kept.said)


def test_an_engine_of_an_older_plan_is_asked_where_its_container_says(
    fake: FakeEngine, monkeypatch: pytest.MonkeyPatch
) -> None:
    kept = Kept(monkeypatch, f"http://127.0.0.1:{free_port()}", ENGINES["vllm"].SIGNS)
    kept.run(0.3)
    assert "has not answered yet since its start" in kept.watch.problem
    kept.labels = {"tandem.url": fake.url, "tandem.model": "older", "tandem.spec": "s"}
    kept.run(0.6)
    assert (kept.watch.problem, fake.model) == ("", "older")
    # What it is there for can't be asked by the plan's questions: it is asked nothing, and lives by its metrics.
    kept.labels, kept.invocation, fake.asked = {**kept.labels, "tandem.answers": "embeddings"}, lambda: "another", 0
    fake.status = 404
    # A question that was asked before its container said so is not waited for.
    kept.watch.question = engine.Question(lambda: "")
    kept.run(2 * MUTE_S)
    assert kept.watch.question is None
    assert (kept.watch.problem, kept.killed, fake.asked) == ("", [], 0)
    fake.metrics_late_s, fake.status = 60, 200
    assert len(kept.run(2 * MUTE_S).killed) == 1
    fake.free.set()
    # Its next start is the plan's.
    kept.labels, kept.invocation = {}, lambda: "two"
    kept.run(0.3)
    assert "has not answered yet since its start" in kept.watch.problem
