"""Users that ask at once: each takes the next conversation when its last one is over."""

from __future__ import annotations

import asyncio
import time
from collections import deque
from collections.abc import Callable

import aiohttp

from bench.client.shapes import Done, Json, Line, Message, Told, Turn
from bench.client.stream import Answer, ask

#: Seconds for which an idle connection is used again: servers close theirs after 5 (uvicorn), and a request that meets
#: that moment fails without a fault of theirs.
KEEP_S = 2.0

Tell = Callable[[Line], None]


def session() -> aiohttp.ClientSession:
    """Connections without a limit, kept as long as is safe."""
    connector = aiohttp.TCPConnector(limit=0, keepalive_timeout=KEEP_S)
    return aiohttp.ClientSession(connector=connector, timeout=aiohttp.ClientTimeout(total=None), read_bufsize=2**20)


async def load(
    tell: Tell,
    url: str,
    key: str,
    model: str,
    users: int,
    conversations: list[list[Turn]],
    extra: Json,
    timeout_s: float,
) -> Done:
    """Ask everything; each request is told as it ends, `took_s` and `cpu_share` (of one core) at the end.

    A turn: `messages` that are new, `max_tokens`, `exact` (whether the answer has to have as many), `expect` (its text,
    or None), and what `extra` has for all.
    """
    waiting = deque(enumerate(conversations))
    async with session() as http:
        zero, cpu = time.perf_counter(), time.process_time()

        async def user() -> None:
            while waiting:
                number, turns = waiting.popleft()
                await _converse(number, turns)

        async def _converse(number: int, turns: list[Turn]) -> None:
            messages: list[Message] = []
            for turn, wanted in enumerate(turns):
                messages += wanted["messages"]
                body = {
                    "model": model,
                    "messages": messages,
                    "max_tokens": wanted["max_tokens"],
                    "stream": True,
                    "stream_options": {"include_usage": True},
                    **extra,
                }
                tokens = wanted["max_tokens"] if wanted.get("exact") else None
                answer = await ask(http, url, key, body, timeout_s, tokens)
                tell({"request": _record(number, turn, answer, zero, wanted.get("expect"))})
                if answer.error:
                    # The rest of a conversation means nothing without its middle.
                    return
                messages.append({"role": "assistant", "content": answer.text})

        await asyncio.gather(*(user() for _ in range(users)))
        took = time.perf_counter() - zero
        return {"took_s": took, "cpu_share": (time.process_time() - cpu) / took}


def _record(number: int, turn: int, answer: Answer, zero: float, expect: str | None) -> Told:
    """A line of requests.jsonl, but for its step; `text` is for those who learn what is right."""
    return {
        "conversation": number,
        "turn": turn,
        "sent_s": _since(answer.sent, zero),
        "first_s": _since(answer.pieces[0], zero) if answer.pieces else None,
        "done_s": _since(answer.done, zero),
        "pieces_s": [_since(piece, zero) for piece in answer.pieces],
        "prompt_tokens": answer.prompt_tokens,
        "answer_tokens": answer.answer_tokens,
        "cached_tokens": answer.cached_tokens,
        "error": answer.error,
        "right": None if expect is None or answer.error else answer.text == expect,
        "text": answer.text,
    }


def _since(moment: float, zero: float) -> float:
    return round(moment - zero, 6)
