"""`balanced` inside the real LiteLLM, before doubles of engines that are killed, stopped and started again.

Whatever happens to a request: when none runs, none is counted on any engine, and none runs in one.
"""

from __future__ import annotations

import asyncio
import signal
import subprocess
import sys
from collections.abc import Awaitable, Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from bench.client.count import get
from bench.client.load import session
from bench.client.stream import Answer
from tests.bench.routing import doors
from tests.bench.routing.counters import counts
from tests.bench.routing.load import stream
from tests.node.confined import contained, place
from tests.support.ports import free_port
from tests.support.waiting import until_it_listens

pytestmark = pytest.mark.skipif(not doors.LITELLM.exists(), reason="no LiteLLM here: `make venv-proxy` installs it")

#: How much faster than a GB10: a token each 9 ms.
SPEED = 8
#: Seconds for what should be at once, on a machine that has other things to do.
SOON_S = 60


class EngineDouble:
    """An engine's process on one port, which can go and come back."""

    def __init__(self) -> None:
        self.port = free_port()
        self.url = f"http://127.0.0.1:{self.port}"
        self.process: subprocess.Popen[bytes]
        self.start()

    def start(self) -> None:
        """From nothing; answers when this returns."""
        argv = [sys.executable, "-m", "tests.bench.routing.double_server", str(self.port), str(SPEED), "1"]
        self.process = subprocess.Popen(argv, cwd=doors.ROOT)
        until_it_listens(self.port, SOON_S)

    def go_on(self) -> None:
        """Whatever a test that failed has left: dead, or stopped."""
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGCONT)
        else:
            self.start()

    def kill(self) -> None:
        """As by the memory guard: connections break, further ones are refused."""
        self.process.kill()
        self.process.wait()


class Setup:
    """LiteLLM over two engines."""

    def __init__(self, folder: Path) -> None:
        self.engines = [EngineDouble(), EngineDouble()]
        probe = Path(__file__).parent / "doubles/balanced_probe.py"
        engines = [each.url for each in self.engines]
        self.door = doors.litellm("balanced", engines, "double", folder, more=[probe], before=contained)

    def close(self) -> None:
        """Ends all of it."""
        self.door.stop()
        for engine in self.engines:
            engine.kill()

    async def chat(self, tokens: int = 30, text: str = "hello", **more: Any) -> Answer:
        """One streamed chat."""
        body = {"model": "double", "messages": [{"role": "user", "content": text}], "max_tokens": tokens}
        return await stream(f"{self.door.url}/v1", {**body, "stream": True, **more}, doors.KEY)

    async def post(self, path: str, **body: Any) -> tuple[int, Any]:
        """Status and body of a request that is not streamed."""
        headers = {"Authorization": f"Bearer {doors.KEY}"}
        asked = {"model": "double", **body}
        async with session() as http, http.post(f"{self.door.url}{path}", json=asked, headers=headers) as response:
            return response.status, await response.json()

    async def under_way(self) -> dict[str, int]:
        """By `balanced`'s own count: URL of the API -> requests, those that have any."""
        found = await get(f"{self.door.url}/under-way", doors.KEY)
        return {engine: count for engine, count in found["answer"].items() if count}

    async def busy(self) -> list[float]:
        """By the engines' own count."""
        return [(await counts(engine.url)).busy for engine in self.engines]

    async def until(self, what: Callable[[], Awaitable[bool]]) -> None:
        """Waits for it; fails after SOON_S."""
        async with asyncio.timeout(SOON_S):
            while not await what():
                await asyncio.sleep(0.05)

    async def quiet(self) -> bool:
        """Nothing is counted, and nothing runs."""
        return not await self.under_way() and not any(await self.busy())

    async def engine_of_one(self) -> EngineDouble:
        """Where the only request is, once it is at work there."""

        async def there() -> bool:
            return sum((await self.under_way()).values()) == 1 and sum(await self.busy()) == 1

        await self.until(there)
        (url,) = await self.under_way()
        return next(each for each in self.engines if url == f"{each.url}/v1")


def numbers(count: int) -> str:
    """The whole answer of a double."""
    return "".join(f"{number} " for number in range(count))


@pytest.fixture(scope="module")
def litellm(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Setup]:
    with place(tmp_path_factory.mktemp("litellm")) as folder:
        setup = Setup(folder)
        yield setup
        setup.close()


@pytest.fixture
def setup(litellm: Setup) -> Iterator[Setup]:
    """Both engines are there, and count for LiteLLM, before the test; nothing is counted after it."""
    for engine in litellm.engines:
        engine.go_on()
    yield litellm
    for engine in litellm.engines:
        engine.go_on()
    asyncio.run(litellm.until(litellm.quiet))


async def both_count(setup: Setup) -> None:
    """Until neither engine is in a cooldown: two at once go to both."""

    async def shared() -> bool:
        before = [await counts(each.url) for each in setup.engines]
        await asyncio.gather(*(setup.chat(20) for _ in range(2)))
        counted = [await counts(each.url) for each in setup.engines]
        return all(now.since(then).requests == 1 for now, then in zip(counted, before, strict=True))

    await setup.until(shared)


@pytest.mark.parametrize("users", [2, 8, 64])
def test_a_burst_is_shared_evenly(setup: Setup, users: int) -> None:
    async def burst() -> None:
        await both_count(setup)
        before = [await counts(each.url) for each in setup.engines]
        answers = await asyncio.gather(*(setup.chat(30, f"question {number}") for number in range(users)))
        assert [each.text for each in answers] == [numbers(30)] * users
        counted = [(await counts(each.url)).since(then) for each, then in zip(setup.engines, before, strict=True)]
        assert [each.requests for each in counted] == [users / 2, users / 2]

    asyncio.run(burst())


def test_a_stream_whose_engine_dies_counts_on_the_one_that_goes_on(setup: Setup) -> None:
    async def fault() -> None:
        await both_count(setup)
        asked = asyncio.create_task(setup.chat(300))
        first = await setup.engine_of_one()
        await asyncio.sleep(0.5)
        first.kill()
        other = next(each for each in setup.engines if each is not first)

        async def moved() -> bool:
            return await setup.under_way() == {f"{other.url}/v1": 1} and (await counts(other.url)).busy == 1

        await setup.until(moved)
        answer = await asked
        assert (answer.error, answer.text) == ("", numbers(300))

    asyncio.run(fault())


def test_an_engine_that_refuses_is_not_taken_for_the_least_busy(setup: Setup) -> None:
    """Its count stays at nothing, while the other's grows: each request must get away from it."""

    async def fault() -> None:
        await both_count(setup)
        setup.engines[0].kill()
        answers = await asyncio.gather(*(setup.chat(20, f"question {number}") for number in range(32)))
        assert [each.error for each in answers if each.error] == []
        setup.engines[0].start()
        await both_count(setup)

    asyncio.run(fault())


def test_a_client_that_goes_before_the_first_token_is_not_counted_for_ever(setup: Setup) -> None:
    """The engine hangs, the client gives up, then the engine dies: nobody is left who would try again."""

    async def fault() -> None:
        await both_count(setup)
        for engine in setup.engines:
            engine.process.send_signal(signal.SIGSTOP)
        asked = asyncio.create_task(setup.chat(30))

        async def counted() -> bool:
            return sum((await setup.under_way()).values()) == 1

        await setup.until(counted)
        asked.cancel()
        await asyncio.wait({asked})
        for engine in setup.engines:
            engine.kill()
            engine.start()

    asyncio.run(fault())


def test_a_client_that_goes_in_the_middle_is_not_counted_for_ever(setup: Setup) -> None:
    async def fault() -> None:
        await both_count(setup)
        asked = asyncio.create_task(setup.chat(100_000))
        await setup.engine_of_one()
        asked.cancel()
        await asyncio.wait({asked})
        await setup.until(setup.quiet)

    asyncio.run(fault())


def test_an_engine_that_hangs_and_comes_back_counts_what_it_has(setup: Setup) -> None:
    async def fault() -> None:
        await both_count(setup)
        asked = asyncio.create_task(setup.chat(50))
        first = await setup.engine_of_one()
        first.process.send_signal(signal.SIGSTOP)
        # Meanwhile others go where nothing hangs.
        assert [(await setup.chat(5)).error for _ in range(3)] == [""] * 3
        first.process.send_signal(signal.SIGCONT)
        assert (await asked).text == numbers(50)

    asyncio.run(fault())


TOOL = {"type": "function", "function": {"name": "search", "parameters": {"type": "object"}}}


@pytest.mark.parametrize(
    ("path", "body", "status"),
    [
        ("/v1/chat/completions", {"messages": [{"role": "user", "content": "a"}], "max_tokens": 3}, 200),
        ("/v1/chat/completions", {"messages": [{"role": "user", "content": "a"}], "max_tokens": -1}, 400),
        ("/v1/chat/completions", {"messages": "no list"}, None),
        # The double takes it, as an engine's own matter.
        ("/v1/chat/completions", {}, 200),
        ("/v1/chat/completions", {"messages": [{"role": "user", "content": "a"}], "tools": [TOOL]}, 200),
        ("/v1/completions", {"prompt": "a", "max_tokens": 3}, 200),
        ("/v1/completions", {"prompt": [1, 2, 3], "max_tokens": 3}, 200),
        ("/v1/completions", {"prompt": "a", "max_tokens": -1}, 400),
        ("/v1/embeddings", {"input": ["a", "b"]}, 200),
    ],
    ids=lambda value: str(value)[:40],
)
def test_nothing_is_left_behind_by_other_requests(
    setup: Setup, path: str, body: dict[str, Any], status: int | None
) -> None:
    async def ask() -> None:
        found, answer = await setup.post(path, **body)
        assert found == status if status else found >= 400, answer

    asyncio.run(ask())


def test_a_streamed_tool_call_counts_until_it_is_whole(setup: Setup) -> None:
    async def ask() -> None:
        asked = asyncio.create_task(setup.chat(100, tools=[TOOL]))
        await setup.engine_of_one()
        # Whole, and without text: a call is none.
        assert (await asked).error == "no text came"

    asyncio.run(ask())
