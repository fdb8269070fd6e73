"""How many tokens a prompt has, by the engine's own word."""

from __future__ import annotations

import asyncio

import aiohttp

from bench.client.load import session
from bench.client.shapes import Done, Json, Message

#: Prompts that are counted at once: an engine has one process for it.
_AT_ONCE = 16


async def count(url: str, key: str, model: str, prompts: list[list[Message]]) -> Done:
    """`counts` in the order of the prompts, the template's tokens included; or `problem`.

    vLLM's `/tokenize` is asked, beside `/v1`; an engine without it is asked for a token of each, and says in `usage`
    how many it has read.
    """
    limit = asyncio.Semaphore(_AT_ONCE)
    headers = {"Authorization": f"Bearer {key}"} if key else {}
    async with session() as http:

        async def one(messages: list[Message]) -> int:
            body: Json = {"model": model, "messages": messages}
            async with limit:
                async with http.post(f"{url.removesuffix('/v1')}/tokenize", json=body, headers=headers) as response:
                    if response.status == 200:
                        return int((await response.json())["count"])
                body |= {"max_tokens": 1, "temperature": 0}
                async with http.post(f"{url}/chat/completions", json=body, headers=headers) as response:
                    if response.status != 200:
                        raise ValueError(f"HTTP {response.status}: {' '.join((await response.text()).split())[:160]}")
                    return int((await response.json())["usage"]["prompt_tokens"])

        try:
            return {"counts": await asyncio.gather(*(one(messages) for messages in prompts))}
        except (aiohttp.ClientError, OSError, ValueError, KeyError, TypeError) as error:
            return {"problem": f"{type(error).__name__}: {error}"}


async def get(url: str, key: str) -> Done:
    """`answer`: the JSON under an address; or `problem`."""
    headers = {"Authorization": f"Bearer {key}"} if key else {}
    try:
        async with asyncio.timeout(30):
            async with session() as http, http.get(url, headers=headers) as response:
                if response.status != 200:
                    return {"problem": f"HTTP {response.status}"}
                return {"answer": await response.json(content_type=None)}
    except (aiohttp.ClientError, OSError, ValueError) as error:
        return {"problem": f"{type(error).__name__}: {error}".rstrip(": ")}
