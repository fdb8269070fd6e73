"""The door: how much a key may ask for, and what an answer has cost."""

from __future__ import annotations

import asyncio
import subprocess
import sys
import time
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from tests.node.door_double import END, EVENTS, Setup, a_door, usage
from tests.node.shipped import FILES, part
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
    answer = part("litellm", "door_usage").Answer(visit, "/v1/chat/completions", b"text/event-stream")
    got = b"".join(answer.pass_on(each, number < len(parts) - 1) for number, each in enumerate(parts))
    assert got == (text.replace(cost, b"") if hides else text)
    assert visit.tokens == 42


def test_a_stream_that_ends_early_costs_what_has_passed(setup: Setup) -> None:
    visit = part("litellm", "door_limits").Visit(part("litellm", "door_keys").Key("a", "h"), asked=100)
    answer = part("litellm", "door_usage").Answer(visit, "/v1/chat/completions", b"text/event-stream")
    assert visit.tokens == 0
    visit.was_asked = True
    assert answer.pass_on(EVENTS[0] + EVENTS[0] + EVENTS[1][:9], True) == EVENTS[0] * 2
    assert answer.pass_on(b"", False) == EVENTS[1][:9]
    assert visit.tokens == 102


@pytest.mark.parametrize(
    ("text", "tokens"),
    [
        (b'{"choices":[{"text":"\\"usage\\":{\\"total_tokens\\":1}"}],"usage":{"total_tokens":9,"x":{"y":1}}}', 9),
        (b'{"usage":{"prompt_tokens":3,"completion_tokens":4},"z":1}', 7),
        (b'{"usage":null}', 0),
        (b'{"usage":{"total_tokens":-5}}', 0),
        (b'{"usage":{"total_tokens":true}}', 0),
        # Nobody but a ranking says it so: an answer may repeat what its client has sent.
        (b'{"tools":[{"billed_units":{"total_tokens":5}}],"usage":null}', 0),
        (b'{"usage":{"total_tokens":"many"}}', 0),
        (b'{"usage":', 0),
        (b"", 0),
    ],
)
def test_what_an_answer_cost_is_read_from_it(setup: Setup, text: bytes, tokens: int) -> None:
    assert cost_of("/v1/chat/completions", "application/json", text) == tokens


RANKED = b'{"results":[],"meta":{"billed_units":{"total_tokens":5},"tokens":{"input_tokens":5}}}'
#: What a client gives its tool for a parameter, and an engine repeats.
BILL = b'{"billed_units":{"total_tokens":-9},"usage":{"total_tokens":-9}}'
CREATED = b'event: response.created\ndata: {"response":{"tools":[%s],"usage":null}}\n\n' % BILL
FREE = b'event: response.output_text.delta\ndata: {"delta":"a","usage":{"total_tokens":1}}\n\n'
MADE = b'event: response.completed\ndata: {"response":{"usage":{"total_tokens":42},"tools":[%s]}}\n\n' % BILL


@pytest.mark.parametrize(
    ("path", "kind", "text", "tokens"),
    [
        ("/v1/rerank", "application/json", RANKED, 5),
        ("/v2/rerank", "application/json", RANKED, 5),
        ("/v1/responses", "application/json", b'{"usage":{"total_tokens":42},"tools":[%s]}' % BILL, 42),
        ("/v1/responses", "application/json", b'{"usage":null,"tools":[%s]}' % BILL, 0),
        ("/v1/responses", "text/event-stream", CREATED + FREE + MADE, 42),
        # Its client leaves, and has had one piece.
        ("/v1/responses", "text/event-stream", CREATED + FREE, 2),
    ],
)
def test_a_client_s_own_objects_are_no_bill(setup: Setup, path: str, kind: str, text: bytes, tokens: int) -> None:
    assert cost_of(path, kind, text) == tokens


def test_a_message_that_its_client_leaves_costs_its_pieces_too(setup: Setup) -> None:
    begin = b'event: message_start\ndata: {"message":{"usage":{"input_tokens":12,"output_tokens":1}}}\n\n'
    piece = b'event: content_block_delta\ndata: {"delta":{"text":"a"}}\n\n'
    visit = part("litellm", "door_limits").Visit(part("litellm", "door_keys").Key("a", "h"), asked=3, was_asked=True)
    answer = part("litellm", "door_usage").Answer(visit, "/v1/messages", b"text/event-stream")
    answer.pass_on(begin + piece * 20, True)
    assert visit.tokens == 12 + 21
    answer.pass_on(b'event: message_delta\ndata: {"usage":{"output_tokens":20}}\n\n', False)
    assert visit.tokens == 32


def cost_of(path: str, kind: str, text: bytes) -> int:
    """Tokens that this answer has cost."""
    visit = part("litellm", "door_limits").Visit(part("litellm", "door_keys").Key("a", "h"), was_asked=True)
    assert part("litellm", "door_usage").Answer(visit, path, kind.encode()).pass_on(text, False) == text
    return int(visit.told or visit.pieces)


def test_a_last_piece_that_says_what_it_cost_is_no_less_a_piece(setup: Setup) -> None:
    visit = part("litellm", "door_limits").Visit(part("litellm", "door_keys").Key("a", "h"), hides_usage=True)
    answer = part("litellm", "door_usage").Answer(visit, "/v1/chat/completions", b"text/event-stream")
    for choice in (b'{"delta":{"content":"a"}}', b'{"text":"a"}', b'{"delta":{},"finish_reason":"stop"}'):
        event = usage(42).replace(b'"choices":[]', b'"choices":[%s]' % choice)
        assert answer.pass_on(event, True) == event
    assert visit.tokens == 42


class Two:
    """The limits of two LiteLLM of a node, in one process; `key` may 2 requests at once and 10 tokens a minute."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, folder: Path) -> None:
        self.limits, self.shared = part("litellm", "door_limits"), part("litellm", "shared")
        monkeypatch.setattr(self.shared, "LOOK_S", 0.0)
        self.counts = [self.shared.Counts(folder) for _ in range(2)]
        self.both = [self.limits.Limits() for _ in range(2)]
        self.key = part("litellm", "door_keys").Key("a", "h" * 64, None, 2, 10)
        self._monkeypatch = monkeypatch

    def visit(self, **more: int) -> Any:
        return self.limits.Visit(self.key, **more)

    def at(self, which: int) -> Any:
        """The limits of one of them, which speaks to the other from now on."""
        self._monkeypatch.setattr(self.shared, "counts", self.counts[which])
        return self.both[which]

    def said(self, which: int, now: float) -> Any:
        return self.at(which).refuse(self.key, now)


@pytest.fixture(name="two")
def a_pair(setup: Setup, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Two:
    return Two(monkeypatch, tmp_path)


def test_requests_at_the_other_litellm_of_the_node_count(two: Two) -> None:
    with two.at(0).under_way(two.visit()), two.at(0).under_way(two.visit()):
        assert two.said(1, 100.0).what == "requests"
        two.at(0)
    assert two.said(1, 100.0) is None


#: The machine has been up for a minute and a half, for a hundred days, and for thirty years.
@pytest.mark.parametrize("up", [100.0, 8_640_000.0, 946_080_000.0])
def test_tokens_of_the_other_litellm_of_the_node_count_for_a_minute(two: Two, up: float) -> None:
    for after, tokens in ((0.0, 6), (30.0, 8)):
        two.at(0).spend(two.visit(told=tokens), up + after)
    refused = two.said(1, up + 31)
    assert (refused.what, "has used 14 tokens" in refused.why) == ("tokens", True)
    # When the first six are a minute old.
    assert refused.after_s == 29
    assert two.said(1, up + 61) is None, "the others are no reason for that they stay"
    two.at(1).spend(two.visit(told=2), up + 61)
    assert two.said(0, up + 62).what == two.said(1, up + 62).what == "tokens"
    assert two.said(1, up + 91) is None


def test_a_stream_at_the_other_litellm_counts_while_it_runs_and_once_at_its_end(two: Two) -> None:
    visit = two.visit(was_asked=True)
    with two.at(0).under_way(visit):
        visit.pieces = 9
        two.at(0).passes(visit, 100.0)
        assert two.said(1, 100.0) is None
        visit.pieces = 12
        two.at(0).passes(visit, 100.1)
        assert two.said(1, 100.1) is None, "it is told now and then"
        two.at(0).passes(visit, 100.3)
        assert "has used 12 tokens" in two.said(1, 100.3).why
        visit.told = 13
        two.at(0)
    two.at(0).spend(visit, 101.0)
    assert "has used 13 tokens" in two.said(1, 101.0).why and "has used 13 tokens" in two.said(0, 101.0).why


def test_the_door_tells_the_other_litellm_of_a_stream_piece_by_piece(
    setup: Setup, two: Two, monkeypatch: pytest.MonkeyPatch
) -> None:
    setup.key("alice", tokens=100)
    name = f"running {setup.door.keys.find(b'sk-alice').id}"
    monkeypatch.setattr(two.limits, "TELL_S", 0.0)
    two.at(0)
    setup.application.kind, setup.application.parts = b"text/event-stream", [EVENTS[0]] * 3
    seen: list[int] = []
    setup.application.before = lambda: seen.append(two.counts[1].others(name))
    assert setup.once("sk-alice").status == 200
    assert seen == [0, 1, 2] and two.counts[1].others(name) == 0


#: A LiteLLM's limits in a process of their own: the key `h...` has two requests under way and has used 9 tokens.
OTHER = """
import sys, time
sys.path.insert(0, sys.argv[1])
import door_keys, door_limits
key, limits = door_keys.Key("a", "h" * 64, None, 2, 10), door_limits.Limits()
limits.spend(door_limits.Visit(key, told=9), time.monotonic())
with limits.under_way(door_limits.Visit(key)), limits.under_way(door_limits.Visit(key)):
    print("there", flush=True)
    time.sleep(600)
"""


def test_a_litellm_that_is_killed_keeps_nothing_of_a_limit(two: Two, tmp_path: Path) -> None:
    argv = [sys.executable, "-B", "-c", OTHER, str(FILES / "litellm")]
    environment = {"TANDEM_SHARED": str(tmp_path)}
    with subprocess.Popen(argv, env=environment, stdout=subprocess.PIPE, text=True) as other:
        try:
            assert other.stdout and other.stdout.readline() == "there\n"
            assert two.said(0, time.monotonic()).what == "requests"
        finally:
            other.kill()
    assert two.said(0, time.monotonic()) is None
    two.at(0).spend(two.visit(told=2), time.monotonic())
    assert two.said(0, time.monotonic()) is None, "9 of the other's and 2 would be too many"


def test_answers_of_one_request_count_as_requests_until_it_ends() -> None:
    module, key = part("litellm", "door_limits"), part("litellm", "door_keys").Key("a", "h", requests=3)
    limits = module.Limits()
    for _ in range(2):
        visit = module.Visit(key)
        with limits.under_way(visit):
            assert limits.weigh(visit, 4).what == "requests"
            assert limits.weigh(visit, 3) is None
            assert limits.refuse(key, 0.0).what == "requests"
        assert limits.refuse(key, 0.0) is None


@pytest.mark.parametrize("path", ["chat/completions", "messages"])
def test_a_stream_whose_model_does_not_load_costs_nothing(setup: Setup, path: str) -> None:
    protocols, said = part("litellm", "protocols"), part("litellm", "door_answers").not_loaded("no", 9, has_failed=True)
    visit = part("litellm", "door_limits").Visit(part("litellm", "door_keys").Key("a", "h"), asked=100, status=200)
    answer = part("litellm", "door_usage").Answer(visit, "/v1/chat/completions", b"text/event-stream")
    for each in (b": a loads: 5 s\n\n", protocols.PING, protocols.ended(path, *said[:2])):
        assert answer.pass_on(each, True) == each
    assert visit.tokens == 0
