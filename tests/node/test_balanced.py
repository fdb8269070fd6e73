"""The proxy's choice of an engine: the fewest requests under way, a conversation where it is cached, nothing forgotten.

LiteLLM is not among what the tests install: an empty class stands for its base class. The real one is in the lab.
"""

from __future__ import annotations

import asyncio
import sys
from collections import Counter
from collections.abc import Awaitable, Callable
from functools import partial
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest

from tests.node.shipped import load

ENGINES = [{"model_info": {"id": name}} for name in ("a", "b")]


@pytest.fixture
def proxy(monkeypatch: pytest.MonkeyPatch) -> Any:
    """The module, around an application that does what `scope["do"]` says."""

    async def application(scope: Any, receive: Any, send: Any) -> None:
        await scope["do"]()

    fakes = {name: ModuleType(name) for name in ("litellm", "litellm.integrations", "litellm.proxy")}
    fakes["litellm.integrations.custom_logger"] = ModuleType("custom_logger")
    vars(fakes["litellm.integrations.custom_logger"])["CustomLogger"] = object
    vars(fakes["litellm.proxy"])["proxy_server"] = SimpleNamespace(app=SimpleNamespace(middleware_stack=application))
    for name, module in fakes.items():
        monkeypatch.setitem(sys.modules, name, module)
    return load("proxy/balanced.py")


async def choose(proxy: Any, messages: Any = None, engines: Any = None, **more: Any) -> str:
    """The engine that a request is sent to."""
    found = await proxy.callback.async_filter_deployments("m", ENGINES if engines is None else engines, messages, more)
    assert len(found) == 1
    return str(found[0]["model_info"]["id"])


async def request(proxy: Any, do: Callable[[], Awaitable[Any]]) -> None:
    """A client's request, which does this."""
    await proxy.proxy_server.app.middleware_stack({"do": do}, None, None)


def said(*texts: str) -> list[dict[str, str]]:
    """A conversation."""
    roles = ("user", "assistant")
    return [{"role": roles[number % 2], "content": text} for number, text in enumerate(texts)]


@pytest.mark.parametrize("users", [2, 8, 64])
def test_a_burst_is_shared_evenly(proxy: Any, users: int) -> None:
    chosen: Counter[str] = Counter()

    async def burst() -> None:
        async def ask(number: int) -> None:
            chosen[await choose(proxy, said(f"question {number}"))] += 1
            await asyncio.sleep(0.01)

        await asyncio.gather(*(request(proxy, partial(ask, number)) for number in range(users)))

    asyncio.run(burst())
    assert chosen == {"a": users // 2, "b": users // 2}
    assert not any(proxy.callback.under_way.values())


def test_whoever_is_first_is_not_always_sent_to_the_same(proxy: Any) -> None:
    async def one() -> str:
        return await choose(proxy)

    assert {asyncio.run(one()) for _ in range(64)} == {"a", "b"}


@pytest.mark.parametrize("end", [None, ConnectionError, asyncio.CancelledError], ids=["ends", "fails", "is cancelled"])
def test_a_request_counts_until_it_ends_however_it_ends(proxy: Any, end: type[BaseException] | None) -> None:
    async def ask() -> None:
        # LiteLLM chooses and streams in tasks of its own.
        name = await asyncio.create_task(choose(proxy))
        assert proxy.callback.under_way[name] == 1
        if end:
            raise end

    async def all_of_it() -> None:
        try:
            await request(proxy, ask)
        except BaseException as error:
            assert end and isinstance(error, end)

    asyncio.run(all_of_it())
    assert not any(proxy.callback.under_way.values())


def test_a_request_that_is_tried_again_counts_once_where_it_is_now(proxy: Any) -> None:
    async def ask() -> None:
        await choose(proxy, engines=ENGINES[:1])
        await choose(proxy, engines=ENGINES[1:])
        assert +proxy.callback.under_way == {"b": 1}

    asyncio.run(request(proxy, ask))
    assert not any(proxy.callback.under_way.values())


def test_without_an_engine_the_list_stays_empty(proxy: Any) -> None:
    assert asyncio.run(proxy.callback.async_filter_deployments("m", [], None)) == []


def test_a_conversation_stays_where_it_is_cached(proxy: Any) -> None:
    async def talk() -> set[str]:
        chosen, conversation = set(), said("a long question " * 100)
        for turn in range(12):
            chosen.add(await choose(proxy, conversation))
            conversation = [*conversation, *said("an answer", f"more {turn}")]
        return chosen

    assert len(asyncio.run(talk())) == 1


@pytest.mark.parametrize(("tokens", "stays"), [(1000, False), (6000, True)])
def test_it_moves_where_waiting_costs_more_than_reading_it_anew(proxy: Any, tokens: int, stays: bool) -> None:
    async def talk() -> bool:
        conversation = said("x" * tokens * proxy.CHARACTERS)
        first = await choose(proxy, conversation)
        proxy.callback.under_way[first] = 1
        return first == await choose(proxy, [*conversation, *said("an answer", "more")])

    assert asyncio.run(talk()) == stays


def test_the_same_words_with_other_tools_are_another_prompt(proxy: Any) -> None:
    async def talk() -> None:
        conversation = said("x" * 100_000)
        first = await choose(proxy, conversation, tools=[{"name": "search"}])
        proxy.callback.under_way[first] = 1
        assert await choose(proxy, conversation, tools=[{"name": "search"}]) == first
        assert await choose(proxy, conversation) != first

    asyncio.run(talk())


def test_an_engine_that_was_away_has_an_empty_cache(proxy: Any) -> None:
    async def talk() -> None:
        conversation = said("x" * 100_000)
        first = await choose(proxy, conversation, engines=ENGINES[:1])
        await choose(proxy, engines=ENGINES[1:])
        proxy.callback.under_way[first] = 1
        assert await choose(proxy, conversation) == "b"

    asyncio.run(talk())


def test_what_is_remembered_is_bounded(proxy: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(proxy, "REMEMBERED", 10)

    async def talk() -> None:
        for number in range(100):
            await choose(proxy, said(f"question {number}"), engines=ENGINES[:1])

    asyncio.run(talk())
    assert len(proxy.callback.has_read["a"]) == 10
