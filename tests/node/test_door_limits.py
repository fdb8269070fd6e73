"""The door: how much a key may ask for, and what an answer has cost."""

from __future__ import annotations

import asyncio
import time
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from tests.node.door_double import END, EVENTS, Setup, a_door, usage
from tests.node.shipped import part
from tests.node.strangers import in_openai_form

__all__ = ["a_door"]


def test_requests_at_once_are_limited_and_free_when_they_end_however(setup: Setup) -> None:
    setup.key("alice", requests=2)
    setup.key("bob", requests=1)

    async def both() -> None:
        gate = asyncio.Event()
        setup.application.before = gate.wait
        two = [asyncio.create_task(setup.ask("sk-alice")) for _ in range(2)]
        await asyncio.sleep(0)
        refused = await setup.ask("sk-alice")
        assert refused.status == 429 and refused.headers[b"retry-after"] == b"1"
        error = in_openai_form(refused.body)
        assert (error["type"], error["code"]) == ("requests", "rate_limit_exceeded")
        other = asyncio.create_task(setup.ask("sk-bob"))
        await asyncio.sleep(0)
        # One client goes away.
        two[0].cancel()
        await asyncio.gather(two[0], return_exceptions=True)
        third = asyncio.create_task(setup.ask("sk-alice"))
        await asyncio.sleep(0)
        gate.set()
        assert [(await task).status for task in (two[1], other, third)] == [200, 200, 200]

    asyncio.run(both())


def at(monkeypatch: pytest.MonkeyPatch, setup: Setup, now: float) -> None:
    """The clock of the door."""
    clock = SimpleNamespace(monotonic=lambda: now, time=time.time)
    monkeypatch.setattr(setup.module, "time", clock)


def test_tokens_a_minute_are_what_the_engine_has_counted(setup: Setup, monkeypatch: pytest.MonkeyPatch) -> None:
    setup.key("alice", tokens=10)
    # 7 of 10, then 14 of 10.
    for now, status in ((100.0, 200), (130.0, 200), (131.0, 429)):
        at(monkeypatch, setup, now)
        got = setup.once("sk-alice")
        assert got.status == status
    error = in_openai_form(got.body)
    assert (error["type"], error["code"]) == ("tokens", "rate_limit_exceeded")
    assert error["message"] == "`alice` has used 14 tokens in a minute, and may use 10"
    # When the first is a minute old.
    assert got.headers[b"retry-after"] == b"29"
    at(monkeypatch, setup, 160.0)
    assert setup.once("sk-alice").status == 200


def test_a_stream_counts_while_it_runs(setup: Setup) -> None:
    setup.key("alice", tokens=5)
    setup.application.kind = b"text/event-stream; charset=utf-8"
    setup.application.parts = [b'data: {"choices":[{}]}\n\n'] * 6

    async def look() -> None:
        seen: list[int] = []

        async def other() -> None:
            if len(seen) < 6:
                seen.append(0)
                setup.application.before = lambda: None
                parts, setup.application.parts = setup.application.parts, []
                seen[-1] = (await setup.ask("sk-alice")).status
                setup.application.parts, setup.application.before = parts, other

        setup.application.before = other
        await setup.ask("sk-alice")
        # Before each piece, and behind the fifth it is too much.
        assert seen == [200, 200, 200, 200, 200, 429]

    asyncio.run(look())


#: As an engine has it, and as LiteLLM hands it on, of a chat and of a text.
COSTS = [
    b'"choices":[]',
    b'"choices":[{"index":0,"delta":{}}]',
    b'"choices":[{"index":0}]',
    b'"choices":[{"index":0,"text":""}]',
]


@pytest.mark.parametrize("choices", COSTS, ids=len)
@pytest.mark.parametrize("hides", [True, False])
@pytest.mark.parametrize("cut", [0, 1, 7, 60, 10_000])
def test_what_a_stream_cost_is_read_and_hidden_from_who_did_not_ask(
    setup: Setup, hides: bool, cut: int, choices: bytes
) -> None:
    """However its bytes are cut into pieces."""
    cost = usage(42).replace(b'"choices":[]', choices)
    text = b"".join(EVENTS) + cost + END
    parts = [text[i : i + cut] for i in range(0, len(text), cut)] if cut else [*EVENTS, cost, END]
    visit = part("litellm", "door_limits").Visit(part("litellm", "door_keys").Key("a", "h"), hides_usage=hides)
    answer = part("litellm", "door_usage").Answer(visit, b"text/event-stream")
    got = b"".join(answer.pass_on(each, number < len(parts) - 1) for number, each in enumerate(parts))
    assert got == (text.replace(cost, b"") if hides else text)
    assert visit.tokens == 42


def test_a_stream_that_ends_early_costs_what_has_passed(setup: Setup) -> None:
    visit = part("litellm", "door_limits").Visit(part("litellm", "door_keys").Key("a", "h"), asked=100)
    answer = part("litellm", "door_usage").Answer(visit, b"text/event-stream")
    assert visit.tokens == 0
    assert answer.pass_on(EVENTS[0] + EVENTS[0] + EVENTS[1][:9], True) == EVENTS[0] * 2
    assert answer.pass_on(b"", False) == EVENTS[1][:9]
    assert visit.tokens == 102


@pytest.mark.parametrize(
    ("text", "tokens"),
    [
        (b'{"choices":[{"text":"\\"usage\\":{\\"total_tokens\\":1}"}],"usage":{"total_tokens":9,"x":{"y":1}}}', 9),
        (b'{"usage":{"prompt_tokens":3,"completion_tokens":4},"z":1}', 7),
        (b'{"results":[],"meta":{"billed_units":{"total_tokens":5},"tokens":{"input_tokens":5}}}', 5),
        (b'{"usage":null}', 0),
        (b'{"usage":{"total_tokens":"many"}}', 0),
        (b'{"usage":', 0),
        (b"", 0),
    ],
)
def test_what_an_answer_cost_is_read_from_it(setup: Setup, text: bytes, tokens: int) -> None:
    visit = part("litellm", "door_limits").Visit(part("litellm", "door_keys").Key("a", "h"))
    answer = part("litellm", "door_usage").Answer(visit, b"application/json")
    assert answer.pass_on(text, False) == text
    assert visit.tokens == tokens


def test_a_last_piece_that_says_what_it_cost_is_no_less_a_piece(setup: Setup) -> None:
    visit = part("litellm", "door_limits").Visit(part("litellm", "door_keys").Key("a", "h"), hides_usage=True)
    answer = part("litellm", "door_usage").Answer(visit, b"text/event-stream")
    for choice in (b'{"delta":{"content":"a"}}', b'{"text":"a"}', b'{"delta":{},"finish_reason":"stop"}'):
        event = usage(42).replace(b'"choices":[]', b'"choices":[%s]' % choice)
        assert answer.pass_on(event, True) == event
    assert visit.tokens == 42


def test_what_the_other_litellm_of_the_node_counts_is_counted(
    setup: Setup, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    limits, shared = part("litellm", "door_limits"), part("litellm", "shared")
    monkeypatch.setattr(shared, "LOOK_S", 0.0)
    one, other = limits.Limits(), limits.Limits()
    mine, others = shared.Counts(tmp_path), shared.Counts(tmp_path)
    key = part("litellm", "door_keys").Key("a", "h" * 64, None, 2, 10)

    def of(limit: Any, counts: Any, now: float) -> Any:
        with monkeypatch.context() as its:
            its.setattr(shared, "counts", counts)
            return limit.refuse(key, now)

    visits = [limits.Visit(key) for _ in range(2)]
    monkeypatch.setattr(shared, "counts", mine)
    with one.under_way(visits[0]), one.under_way(visits[1]):
        assert of(other, others, 100.0).what == "requests"
    assert of(other, others, 100.0) is None
    visits[0].told = 14
    one.spend(visits[0], 100.0)
    refused = of(other, others, 130.0)
    assert (refused.what, "has used 14 tokens" in refused.why) == ("tokens", True)
    assert of(other, others, 161.0) is None
