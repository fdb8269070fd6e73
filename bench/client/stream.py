"""One request, as the client sees it."""

from __future__ import annotations

import asyncio
import json
import time
from dataclasses import dataclass, field

import aiohttp

from bench.client.shapes import Json

#: Characters of a server's own words that are kept.
_WORDS = 160


@dataclass
class Answer:
    """Times by `time.perf_counter`."""

    sent: float
    done: float = 0.0
    pieces: list[float] = field(default_factory=list)
    text: str = ""
    prompt_tokens: int | None = None
    answer_tokens: int | None = None
    cached_tokens: int | None = None
    error: str = ""


async def ask(
    session: aiohttp.ClientSession, url: str, key: str, body: Json, timeout_s: float, wanted: int | None
) -> Answer:
    """A streamed chat completion; it never raises, `error` says why there is no whole answer. `wanted`: tokens that a
    whole answer has; None: as many as the model likes.
    """
    headers = {"Authorization": f"Bearer {key}"} if key else {}
    answer = Answer(time.perf_counter())
    ended = False
    try:
        async with asyncio.timeout(timeout_s):
            async with session.post(f"{url}/chat/completions", json=body, headers=headers) as response:
                if response.status != 200:
                    answer.error = f"HTTP {response.status}: {_line(await response.text())}"
                else:
                    ended = await _read(response, answer)
    except TimeoutError:
        answer.error = f"not complete after {timeout_s:.0f} s"
    except (aiohttp.ClientError, OSError) as error:
        answer.error = f"{type(error).__name__}: {_line(str(error))}"
    answer.done = time.perf_counter()
    if not answer.error:
        answer.error = _incomplete(answer, ended, wanted)
    return answer


def _incomplete(answer: Answer, ended: bool, wanted: int | None) -> str:
    if not ended:
        return "the stream ended without its end ([DONE])"
    if not answer.pieces:
        return "no text came"
    if wanted is not None and answer.answer_tokens is not None and answer.answer_tokens != wanted:
        return f"{answer.answer_tokens} tokens came, {wanted} were asked for"
    return ""


async def _read(response: aiohttp.ClientResponse, answer: Answer) -> bool:
    """Whether the stream came to its end."""
    rest = b""
    async for data in response.content.iter_any():
        now = time.perf_counter()
        *lines, rest = (rest + data).split(b"\n")
        for line in lines:
            if not line.startswith(b"data:"):
                continue
            said = line[5:].strip()
            if said == b"[DONE]":
                return True
            try:
                piece = json.loads(said)
            except ValueError:
                answer.error = f"a piece is no JSON: {_line(said.decode(errors='replace'))}"
                return False
            _take(piece, now, answer)
    return False


def _take(piece: Json, now: float, answer: Answer) -> None:
    if error := piece.get("error"):
        answer.error = f"an error in the stream: {_line(json.dumps(error))}"
    if usage := piece.get("usage"):
        answer.prompt_tokens = usage.get("prompt_tokens")
        answer.answer_tokens = usage.get("completion_tokens")
        answer.cached_tokens = (usage.get("prompt_tokens_details") or {}).get("cached_tokens")
    for choice in piece.get("choices") or []:
        delta = choice.get("delta") or {}
        # Thoughts are tokens like others; engines have two names for them, and LiteLLM says both at once.
        thought = delta.get("reasoning_content") or delta.get("reasoning") or ""
        if text := thought + (delta.get("content") or ""):
            answer.pieces.append(now)
            answer.text += text


def _line(text: str) -> str:
    return " ".join(text.split())[:_WORDS]
