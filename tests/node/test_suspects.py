"""Who is blamed for an engine's death, in which order of events."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from functools import partial
from itertools import count
from typing import Any

import pytest

from tests.node.shipped import part

_numbers = count()


class Asked:
    """A request that is under way in a task of its own."""

    def __init__(self, suspects: Any, body: bytes, address: str, level: int = 0, engines: str = "all") -> None:
        self.suspects, self.address, self.engines = suspects, address, engines
        self.request = suspects.Request(body)
        if level:
            self.request.remember(level)
        self.words = asyncio.Queue[Callable[[], None]]()
        self.is_asked = False
        self.task = asyncio.ensure_future(self._run())

    async def _run(self) -> None:
        self.suspects.current.set(self.request)
        async with self.suspects.asking(self.address, lambda: self.engines):
            self.is_asked = True
            (await self.words.get())()

    async def breaks(self) -> int:
        """Its engine has died; what is known of it then."""
        company = self.suspects.in_company(self.address)
        self.words.put_nowait(lambda: self.suspects.died(self.address, company))
        await self.task
        return int(self.request.level())

    async def ends(self) -> None:
        """It has its answer."""
        self.words.put_nowait(self.suspects.shows)
        await self.task


@pytest.fixture
def suspects(monkeypatch: pytest.MonkeyPatch) -> Any:
    module = part("litellm", "suspects")
    monkeypatch.setattr(module, "TURN_S", 0.2)
    monkeypatch.setattr(module, "LOOK_S", 0.01)
    # Each test has an event loop of its own.
    module._queues.clear()
    return module


def bodies(*names: str) -> tuple[bytes, ...]:
    """Of no other test's."""
    return tuple(f"{name} {next(_numbers)}".encode() for name in names)


async def until(condition: Callable[[], bool]) -> None:
    async with asyncio.timeout(60):
        while not condition():
            await asyncio.sleep(0.01)


def is_any_asked(some: list[Asked]) -> bool:
    return any(each.is_asked for each in some)


def run(events: Coroutine[Any, Any, None]) -> None:
    asyncio.run(asyncio.wait_for(events, 60))


@pytest.mark.parametrize("first", ["slow", "next"])
def test_one_that_is_asked_beside_a_slow_one_is_not_blamed_for_it(suspects: Any, first: str) -> None:
    """The slow one's turn has gone on: from then on each of both is asked alone."""

    async def events() -> None:
        slow, following = bodies("slow", "next")
        asked = {"slow": Asked(suspects, slow, "one", suspects.ONCE)}
        await until(lambda: asked["slow"].is_asked)
        # Its own turn is longer than this test.
        suspects.TURN_S = 60
        asked["next"] = Asked(suspects, following, "one", suspects.ONCE)
        await until(lambda: asked["next"].is_asked)
        assert asked["slow"].request.is_late and asked["next"].request.has_turn
        second = {"slow": "next", "next": "slow"}[first]
        assert await asked[first].breaks() == suspects.TWICE
        assert await asked[second].breaks() == suspects.TWICE
        assert suspects._late["one"] == suspects._under_way["one"] == 0
        suspects.TURN_S = 0.2
        alone = Asked(suspects, slow, "two")
        await until(lambda: alone.is_asked)
        await asyncio.sleep(0.3)
        waits = Asked(suspects, following, "two")
        await asyncio.sleep(0.1)
        assert alone.request.has_turn and not waits.request.has_turn
        assert await alone.breaks() == suspects.KNOWN
        await waits.ends()
        assert waits.request.level() == 0

    run(events())


def test_a_slow_one_is_blamed_where_no_other_suspect_is_asked(suspects: Any) -> None:
    async def events() -> None:
        (slow, beside) = bodies("slow", "beside")
        asked, other = Asked(suspects, slow, "three", suspects.ONCE), Asked(suspects, beside, "three")
        await until(lambda: asked.request.is_late and other.is_asked)
        assert await asked.breaks() == suspects.KNOWN
        # It was asked before, and hears of it behind that.
        assert await other.breaks() == 0

    run(events())


def test_an_engine_that_has_started_anew_is_another_one(suspects: Any) -> None:
    async def events() -> None:
        known, fresh = bodies("known", "fresh")
        asked = Asked(suspects, known, "four", suspects.ONCE)
        await until(lambda: asked.is_asked)
        assert await asked.breaks() == suspects.KNOWN
        await asyncio.sleep(0.05)
        later = Asked(suspects, fresh, "four")
        await until(lambda: later.is_asked)
        assert await later.breaks() == suspects.ONCE and later.request.deaths == 1

    run(events())


def test_turns_are_first_come_first_served(suspects: Any) -> None:
    async def events() -> None:
        asked = [Asked(suspects, body, "five", suspects.TWICE) for body in bodies(*"abcdefgh")]
        for number in range(12):
            first = asked[number]
            await until(partial(is_any_asked, asked[number:]))
            assert [each.is_asked for each in asked[number:]] == [True] + [False] * (len(asked) - number - 1)
            # Whoever comes anew, comes last.
            if len(asked) < 12:
                asked.append(Asked(suspects, bodies("more")[0], "five", suspects.TWICE))
                await asyncio.sleep(0.02)
            await first.ends()

    run(events())


def test_one_that_leaves_while_it_waits_holds_up_nobody(suspects: Any) -> None:
    async def events() -> None:
        first, leaves, last = (Asked(suspects, body, "six", suspects.TWICE) for body in bodies(*"abc"))
        await until(lambda: first.is_asked)
        leaves.task.cancel()
        await first.ends()
        await until(lambda: last.is_asked)
        await last.ends()

    run(events())


def test_models_have_turns_of_their_own(suspects: Any) -> None:
    async def events() -> None:
        one, other = bodies("one", "other")
        first = Asked(suspects, one, "seven", suspects.TWICE, engines="a")
        await until(lambda: first.is_asked)
        second = Asked(suspects, other, "eight", suspects.TWICE, engines="b")
        await until(lambda: second.is_asked)
        for each in (first, second):
            await each.ends()

    run(events())


def test_one_that_came_earlier_to_the_other_litellm_comes_first(suspects: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """And one that does not take its turn there waits for nothing longer than a second."""
    there = {"waits here": 1}
    monkeypatch.setattr(suspects.shared.counts, "each", lambda name: [there.get(name, 0)])

    async def events() -> None:
        asked = Asked(suspects, bodies("late")[0], "nine", suspects.TWICE, engines="here")
        await asyncio.sleep(0.2)
        assert not asked.is_asked
        del there["waits here"]
        await until(lambda: asked.is_asked)
        await asked.ends()
        there["waits here"] = 1
        monkeypatch.setattr(suspects, "HANGS_S", 0.1)
        hung = Asked(suspects, bodies("hung")[0], "nine", suspects.TWICE, engines="here")
        await until(lambda: hung.is_asked)
        await hung.ends()

    run(events())
