"""The proxy's choice of an engine: the fewest requests under way, a conversation where it is cached, nothing forgotten.

LiteLLM is not among what the tests install: an empty class stands for its base class. The real one is in
test_balanced_litellm.py, and in the lab.
"""

from __future__ import annotations

import asyncio
import sys
from collections import Counter
from collections.abc import Awaitable, Callable, Coroutine
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from tests.node.shipped import FILES, load

#: As LiteLLM has them: an id for each name that an engine serves.
ENGINES = [{"model_info": {"id": f"m on {name}"}, "litellm_params": {"api_base": name}} for name in ("a", "b")]
#: What LiteLLM sends of an answer: its head, the first piece, the last.
HEAD = {"type": "http.response.start", "status": 200}
PIECE = {"type": "http.response.body", "body": b"data: {}\n\n", "more_body": True}
LAST = {"type": "http.response.body", "body": b"data: [DONE]\n\n", "more_body": True}


@pytest.fixture
def proxy(monkeypatch: pytest.MonkeyPatch) -> Any:
    """The module; its `application` does what `scope["do"]` says."""
    fakes = {name: ModuleType(name) for name in ("litellm", "litellm.integrations", "litellm.proxy")}
    fakes["litellm.integrations.custom_logger"] = ModuleType("custom_logger")
    vars(fakes["litellm.integrations.custom_logger"])["CustomLogger"] = object
    for name, module in fakes.items():
        monkeypatch.setitem(sys.modules, name, module)
    return another(monkeypatch)


def another(monkeypatch: pytest.MonkeyPatch) -> Any:
    """One more process' module, in this one."""
    monkeypatch.syspath_prepend(str(FILES / "litellm"))
    monkeypatch.delitem(sys.modules, "shared", raising=False)
    module = load("litellm/balanced.py")
    module.application = module.WithTicket(lambda scope, receive, send: scope["do"](send))
    return module


async def choose(proxy: Any, messages: Any = None, engines: Any = None, model: str = "m", **more: Any) -> str:
    """The engine that a try of a request is sent to."""
    listed = ENGINES if engines is None else engines
    found = await proxy.callback.async_filter_deployments(model, listed, messages, more)
    assert len(found) == 1
    return str(found[0]["litellm_params"]["api_base"])


async def request(proxy: Any, do: Callable[[Any], Awaitable[Any]]) -> None:
    """A client's request, which does this; it is given what sends to the client."""

    async def client(message: Any) -> None:
        pass

    await proxy.application({"do": do}, None, client)


async def ask(proxy: Any, messages: Any, *, work_s: float = 0, **more: Any) -> str:
    """A request that is answered. The engine."""
    chosen: list[str] = []

    async def do(send: Any) -> None:
        chosen.append(await choose(proxy, messages, **more))
        # It reads, and then it writes.
        await asyncio.sleep(work_s)
        await send(HEAD)
        await send(PIECE)
        await asyncio.sleep(work_s)
        await send(LAST)

    await request(proxy, do)
    return chosen[0]


def run(proxy: Any, talk: Callable[[], Coroutine[Any, Any, object]]) -> None:
    """Runs it; nothing is under way afterwards."""
    asyncio.run(talk())
    assert not any(proxy.callback.under_way.values())


def prompt(tokens: int, proxy: Any, word: str = "x") -> str:
    """So many tokens."""
    return word * (tokens * int(proxy.CHARACTERS))


def said(*texts: str) -> list[dict[str, str]]:
    """A conversation."""
    roles = ("user", "assistant")
    return [{"role": roles[number % 2], "content": text} for number, text in enumerate(texts)]


@pytest.mark.parametrize("users", [2, 8, 64])
@pytest.mark.parametrize("shared", [0, 3000, 30_000], ids="{} tokens are shared".format)
def test_a_burst_is_shared_evenly(proxy: Any, users: int, shared: int) -> None:
    """Also where all begin alike, and no engine has read it yet."""

    async def burst() -> None:
        alike = said(prompt(shared, proxy))
        all_of_it = (ask(proxy, [*alike, *said(f"question {number}")], work_s=0.01) for number in range(users))
        assert Counter(await asyncio.gather(*all_of_it)) == {"a": users // 2, "b": users // 2}

    run(proxy, burst)


def test_whoever_is_first_is_not_always_sent_to_the_same(proxy: Any) -> None:
    async def one() -> str:
        return await choose(proxy)

    assert {asyncio.run(one()) for _ in range(64)} == {"a", "b"}


@pytest.mark.parametrize(("shared", "most"), [(3000, 34), (30_000, 40)])
def test_a_burst_is_shared_where_one_engine_has_read_how_all_begin(proxy: Any, shared: int, most: int) -> None:
    async def burst() -> None:
        alike = said(prompt(shared, proxy))
        first = await ask(proxy, [*alike, *said("first")])
        all_of_it = (ask(proxy, [*alike, *said(f"question {number}")], work_s=0.01) for number in range(64))
        assert Counter(await asyncio.gather(*all_of_it))[first] <= most

    run(proxy, burst)


@pytest.mark.parametrize("same", [False, True], ids=["how they begin", "all of it"])
def test_what_many_share_is_soon_read_by_all(proxy: Any, same: bool) -> None:
    """Eight users, one after the other, whose prompts have 30,000 tokens in common: none of the engines idles."""

    async def users() -> None:
        alike = said(prompt(30_000, proxy))
        chosen: Counter[str] = Counter()

        async def user(number: int) -> None:
            for turn in range(20):
                question = [] if same else said(f"question {number} {turn}")
                chosen[await ask(proxy, [*alike, *question], work_s=0.001)] += 1

        await ask(proxy, alike)
        await asyncio.gather(*(user(number) for number in range(8)))
        assert max(chosen.values()) <= 0.55 * chosen.total()

    run(proxy, users)


@pytest.mark.parametrize("end", [None, ConnectionError, asyncio.CancelledError], ids=["ends", "fails", "is cancelled"])
def test_a_request_counts_until_it_ends_however_it_ends(proxy: Any, end: type[BaseException] | None) -> None:
    async def do(send: Any) -> None:
        # LiteLLM chooses and streams in tasks of its own.
        name = await asyncio.create_task(choose(proxy))
        assert proxy.callback.under_way[name] == 1
        if end:
            raise end

    async def all_of_it() -> None:
        try:
            await request(proxy, do)
        except BaseException as error:
            assert end and isinstance(error, end)

    run(proxy, all_of_it)


def test_a_request_that_is_tried_again_counts_once_where_it_is_now(proxy: Any) -> None:
    async def do(send: Any) -> None:
        await choose(proxy, engines=ENGINES[:1])
        await choose(proxy, engines=ENGINES[1:])
        assert +proxy.callback.under_way == {"b": 1}

    run(proxy, lambda: request(proxy, do))


def test_an_engine_that_refuses_is_not_tried_again_because_it_has_nothing_to_do(proxy: Any) -> None:
    """LiteLLM may leave it alone later than it tries again."""

    async def do(send: Any) -> None:
        proxy.callback.under_way["b"] = 5
        assert [await choose(proxy) for _ in range(4)] == ["a", "b", "a", "b"]
        proxy.callback.under_way["b"] = 1

    run(proxy, lambda: request(proxy, do))


def test_what_litellm_does_for_a_client_that_is_gone_is_not_counted(proxy: Any) -> None:
    left: list[asyncio.Task[str]] = []

    async def late() -> str:
        await asyncio.sleep(0.01)
        return await choose(proxy)

    async def do(send: Any) -> None:
        left.append(asyncio.create_task(late()))

    async def all_of_it() -> None:
        await request(proxy, do)
        await left[0]

    run(proxy, all_of_it)


def test_without_an_engine_the_list_stays_empty(proxy: Any) -> None:
    assert asyncio.run(proxy.callback.async_filter_deployments("m", [], None)) == []


def test_a_conversation_stays_where_it_is_cached(proxy: Any) -> None:
    async def talk() -> None:
        chosen, conversation = set(), said("a long question " * 100)
        for turn in range(12):
            chosen.add(await ask(proxy, conversation))
            conversation = [*conversation, *said("an answer", f"more {turn}")]
        assert len(chosen) == 1

    run(proxy, talk)


def test_its_next_turn_does_not_meet_its_last(proxy: Any) -> None:
    """A client that has the end of its answer asks on while LiteLLM still tidies up."""

    async def do(send: Any) -> None:
        conversation = said("a question")
        first = await choose(proxy, conversation)
        for message in (HEAD, PIECE, LAST):
            await send(message)
        assert await ask(proxy, [*conversation, *said("an answer", "more")]) == first

    for _ in range(16):
        run(proxy, lambda: request(proxy, do))


def test_an_answer_that_failed_has_read_nothing(proxy: Any) -> None:
    async def do(send: Any) -> None:
        await choose(proxy, said("a question"))
        await send({**HEAD, "status": 503})
        await send(PIECE)

    run(proxy, lambda: request(proxy, do))
    assert not any(proxy.callback.has_read.values())


@pytest.mark.parametrize(("tokens", "stays"), [(1000, False), (6000, True)])
def test_it_moves_where_waiting_costs_more_than_reading_it_anew(proxy: Any, tokens: int, stays: bool) -> None:
    async def talk() -> None:
        conversation = said(prompt(tokens, proxy))
        first = await ask(proxy, conversation)
        proxy.callback.under_way[first] = 1
        assert (first == await ask(proxy, [*conversation, *said("an answer", "more")])) == stays
        proxy.callback.under_way[first] = 0

    run(proxy, talk)


def test_it_moves_when_it_has_waited_for_as_much_as_reading_it_anew_costs(proxy: Any) -> None:
    async def talk() -> None:
        conversation = said(prompt(6000, proxy))
        first = await ask(proxy, conversation)
        proxy.callback.under_way[first] = 1
        chosen = []
        for turn in range(6):
            conversation = [*conversation, *said("an answer", f"more {turn}")]
            chosen.append(await ask(proxy, conversation))
        assert [each == first for each in chosen] == [True, True, False, False, False, False]
        proxy.callback.under_way[first] = 0

    run(proxy, talk)


def test_the_same_words_with_other_tools_or_for_an_adapter_are_another_prompt(proxy: Any) -> None:
    async def talk() -> None:
        conversation = said(prompt(25_000, proxy))
        first = await ask(proxy, conversation, tools=[{"name": "search"}])
        proxy.callback.under_way[first] = 1
        assert await ask(proxy, conversation, tools=[{"name": "search"}]) == first
        assert await ask(proxy, conversation) != first
        assert await ask(proxy, conversation, tools=[{"name": "search"}], model="adapter") != first
        proxy.callback.under_way[first] = 0

    run(proxy, talk)


def test_adapters_are_work_for_the_same_engines(proxy: Any) -> None:
    """LiteLLM has an id for each name on each engine; what one name's requests do, the other's must see."""
    of_adapter = [
        {**each, "model_info": {"id": f"adapter on {each['litellm_params']['api_base']}"}} for each in ENGINES
    ]

    async def talk() -> None:
        conversation = said(prompt(25_000, proxy))
        first = await ask(proxy, conversation)
        other = "b" if first == "a" else "a"
        proxy.callback.under_way[first] = 1
        assert {await ask(proxy, said("a question"), engines=of_adapter) for _ in range(16)} == {other}
        assert await ask(proxy, conversation) == first
        proxy.callback.under_way[first] = 0

    run(proxy, talk)


def test_an_engine_that_was_away_has_an_empty_cache(proxy: Any) -> None:
    async def talk() -> None:
        conversation = said(prompt(25_000, proxy))
        first = await ask(proxy, conversation, engines=ENGINES[:1])
        await ask(proxy, None, engines=ENGINES[1:])
        proxy.callback.under_way[first] = 1
        assert await ask(proxy, conversation) == "b"
        proxy.callback.under_way[first] = 0

    run(proxy, talk)


def test_a_request_for_another_model_costs_no_engine_its_cache(proxy: Any) -> None:
    others = [{"model_info": {"id": "n on c"}, "litellm_params": {"api_base": "c"}}]

    async def talk() -> None:
        conversation = said(prompt(25_000, proxy))
        first = await ask(proxy, conversation)
        await ask(proxy, said("a question"), engines=others, model="n")
        assert proxy.callback.lives == Counter()
        assert {await ask(proxy, conversation) for _ in range(16)} == {first}

    run(proxy, talk)


def test_what_is_remembered_is_bounded(proxy: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(proxy, "REMEMBERED", 10)

    async def talk() -> None:
        for number in range(100):
            await ask(proxy, said(f"question {number}"), engines=ENGINES[:1])

    run(proxy, talk)
    assert len(proxy.callback.has_read["a"]) == 10


def nested(depth: int) -> Any:
    """A list in a list in a list."""
    return [nested(depth - 1)] if depth else []


@pytest.mark.parametrize(
    "messages", ["a text", 5, [5, None], {"role": "user"}, [{"role": "user", "content": nested(600)}]], ids=type
)
def test_what_is_no_conversation_is_sent_on_to_be_refused(proxy: Any, messages: Any) -> None:
    before = sys.getrecursionlimit()
    sys.setrecursionlimit(300)
    try:
        run(proxy, lambda: ask(proxy, messages))
    finally:
        sys.setrecursionlimit(before)


def test_a_text_in_place_of_messages_is_not_taken_letter_by_letter(proxy: Any) -> None:
    run(proxy, lambda: ask(proxy, prompt(1000, proxy)))
    assert not any(proxy.callback.has_read.values())


def test_a_picture_is_not_as_long_as_its_base64(proxy: Any) -> None:
    picture = {"type": "image_url", "image_url": {"url": prompt(100_000, proxy)}}
    text = {"type": "text", "text": prompt(100, proxy)}
    ((_, tokens),) = proxy._beginnings("m", [{"role": "user", "content": [text, picture]}], None)
    assert tokens == 100 + proxy.A_PICTURE


@pytest.fixture
def two(proxy: Any, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> tuple[Any, Any]:
    """Two that share what they know."""
    monkeypatch.setenv("TANDEM_SHARED", str(tmp_path))
    pair = another(monkeypatch), another(monkeypatch)
    for each in pair:
        # Who else is there is looked at once a second.
        monkeypatch.setattr(each.shared, "LOOK_S", 0.0)
    return pair


def test_two_litellm_share_a_burst_as_evenly_as_one(two: tuple[Any, Any]) -> None:
    one, other = two

    async def talk() -> None:
        for users in (2, 8, 64):
            asked = (ask((one, other)[number % 2], said(f"q {number}"), work_s=0.05) for number in range(users))
            assert Counter(await asyncio.gather(*asked)) == {"a": users // 2, "b": users // 2}

    asyncio.run(talk())


def test_a_conversation_stays_where_the_other_litellm_had_it_read(two: tuple[Any, Any]) -> None:
    one, other = two

    async def talk() -> None:
        for number in range(16):
            begun = said(prompt(4000, one, f"{number:x}"))
            engine = await ask(one, begun)
            more = [*begun, *said("", "an answer")[1:], *said("and then?")]
            assert await ask(other, more) == engine

    asyncio.run(talk())


def test_what_an_engine_had_read_is_forgotten_by_both_when_it_was_away(two: tuple[Any, Any]) -> None:
    one, other = two

    async def talk() -> None:
        begun = said(prompt(4000, one))
        engine = await ask(one, begun)
        assert other.callback._cost(engine, next(one._beginnings("m", begun, None))[0]) is not None
        await choose(one, begun, engines=[each for each in ENGINES if each["litellm_params"]["api_base"] != engine])
        assert other.callback._cost(engine, next(one._beginnings("m", begun, None))[0]) is None

    asyncio.run(talk())


@pytest.mark.parametrize("sign", [b": it lives\n\n", b'event: ping\ndata: {"type": "ping"}\n\n'])
def test_a_sign_of_life_is_no_answer_and_has_read_nothing(proxy: Any, sign: bytes) -> None:
    async def do(send: Any) -> None:
        await choose(proxy, [{"role": "user", "content": "a"}])
        for message in (HEAD, {**PIECE, "body": sign}):
            await send(message)
        assert not any(proxy.callback.has_read.values())
        await send(PIECE)
        assert any(proxy.callback.has_read.values())

    asyncio.run(request(proxy, do))


def test_a_long_conversation_is_known_by_its_first_and_last_messages(proxy: Any) -> None:
    """Each message that was looked at cost each engine a look, and a place among what all conversations have."""
    said = [{"role": "user", "content": str(number)} for number in range(10_000)]
    known = {mark for mark, _ in proxy._reads("m", said, None)}
    assert len(known) == proxy.FIRST + proxy.LAST
    # The next turn has all of it in it.
    later = {mark for mark, _ in proxy._reads("m", [*said, *said[:2]], None)}
    assert len(known & later) == len(known) - 2

    async def twice(send: Any) -> None:
        first = await choose(proxy, said)
        await send(HEAD)
        await send(PIECE)
        await send(LAST)
        assert proxy.callback._longest(first, proxy._reads("m", said, None))[0] in known

    asyncio.run(proxy.application({"type": "http", "path": "/v1/chat/completions", "do": twice}, None, nothing))


async def nothing(_message: Any) -> None:
    """Takes what is sent."""


@pytest.mark.parametrize("path", ["/v1/messages/count_tokens", "/tokenize", "/v1/detokenize"])
def test_what_counts_tokens_reads_nothing(proxy: Any, path: str) -> None:
    """Else a conversation would go to an engine for having been counted there, and push out what others have read."""

    async def once(send: Any) -> None:
        await choose(proxy, [{"role": "user", "content": "a"}])
        await send(HEAD)
        await send({**LAST, "body": b"{}"})

    asyncio.run(proxy.application({"type": "http", "path": path, "do": once}, None, nothing))
    assert not any(proxy.callback.has_read.values())
    asyncio.run(proxy.application({"type": "http", "path": "/v1/chat/completions", "do": once}, None, nothing))
    assert any(proxy.callback.has_read.values())
