"""The loads: single requests as fast as they are answered, and conversations that grow behind a shared beginning."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from typing import Any

from bench.client.load import session
from bench.client.stream import Answer, ask
from tests.bench.routing.doors import Door
from tests.bench.routing.double import CHARACTERS

#: Seconds for an answer: so long only one that never comes takes.
PATIENCE_S = 3600


@dataclass(frozen=True)
class Size:
    """How large requests are, in tokens, and how many there are."""

    prompt: int = 512
    #: Answers are drawn between these.
    answers: tuple[int, int] = (32, 256)
    #: Of the whole system prompt that all conversations share, and of what each turn asks.
    shared: int = 2000
    turn: int = 400
    turns: int = 5
    #: Single requests of each user: at 2, at 8, at more.
    each: tuple[int, int, int] = (10, 6, 2)
    #: Seconds a person waits before the next turn, at most; drawn.
    think_s: float = 5.0


@dataclass
class Load:
    """One run of a load against one door."""

    door: Door
    model: str
    size: Size
    seed: int
    users: int
    #: How many times as fast as a GB10 the engines' clock goes: people think as much faster.
    speed: float = 1.0
    answers: list[Answer] = field(default_factory=list)

    async def singles(self) -> None:
        """Each user asks again as soon as there is an answer."""
        few, some, many = self.size.each
        count = few if self.users <= 2 else some if self.users <= 8 else many

        async def user(dice: random.Random) -> None:
            for _ in range(count):
                await self.ask([_said("user", _words(dice, self.size.prompt))], dice)

        await self._all(user)

    async def conversations(self) -> None:
        """Each user has two conversations of several turns, one after the other, behind the same system prompt."""
        shared = _said("system", _words(random.Random(self.seed), self.size.shared))

        async def user(dice: random.Random) -> None:
            for _ in range(2):
                talk = [shared]
                for _ in range(self.size.turns):
                    talk.append(_said("user", _words(dice, self.size.turn)))
                    answer = await self.ask(talk, dice)
                    talk.append(_said("assistant", answer.text))
                    await asyncio.sleep(dice.uniform(0, self.size.think_s) / self.speed)

        await self._all(user)

    async def _all(self, user: Callable[[random.Random], Awaitable[None]]) -> None:
        await asyncio.gather(*(user(random.Random(f"{self.seed} {number}")) for number in range(self.users)))

    async def ask(self, messages: list[dict[str, str]], dice: random.Random) -> Answer:
        """One request, streamed; it is among `answers` afterwards."""
        wanted = dice.randint(*self.size.answers)
        body = {"model": self.model, "messages": messages, "max_tokens": wanted, "stream": True, "ignore_eos": True}
        door = dice.choice([self.door, *self.door.others])
        answer = await stream(f"{door.url}/v1", body, door.key)
        self.answers.append(answer)
        return answer


async def stream(url: str, body: dict[str, Any], key: str) -> Answer:
    """A streamed chat on a connection of its own, to its end or to what went wrong; `url` ends with /v1."""
    async with session() as http:
        return await ask(http, url, key, body, PATIENCE_S, None)


def _said(role: str, text: str) -> dict[str, str]:
    return {"role": role, "content": text}


def _words(dice: random.Random, tokens: int) -> str:
    """As many characters as so many tokens have, about."""
    return " ".join(f"{dice.randrange(1000):03}" for _ in range(tokens))[: tokens * CHARACTERS]
