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

    vLLM's `/tokenize` is asked, beside `/v1`. llama-server's takes plain text, which its `/apply-template` makes of
    messages (tools/server/README.md of llama.cpp). An engine that counts in neither way is asked for a token of each,
    and says in `usage` how many it has read; its prefix cache then has these prompts.
    """
    limit = asyncio.Semaphore(_AT_ONCE)
    headers = {"Authorization": f"Bearer {key}"} if key else {}
    beside = url.removesuffix("/v1")
    async with session() as http:

        async def ask(address: str, body: Json, *, must: bool = False) -> Json:
            """The JSON of a 200. Any other status is {}; with `must` it is a ValueError with its status and text."""
            async with http.post(address, json=body, headers=headers) as response:
                if response.status == 200:
                    return dict(await response.json())
                if must:
                    raise ValueError(f"HTTP {response.status}: {' '.join((await response.text()).split())[:160]}")
                return {}

        async def one(messages: list[Message]) -> int:
            body: Json = {"model": model, "messages": messages}
            async with limit:
                told = await ask(f"{beside}/tokenize", body)
                if "tokens" in told and "count" not in told:
                    made = await ask(f"{beside}/apply-template", body)
                    plain: Json = {"model": model, "content": made.get("prompt"), "add_special": True}
                    told = await ask(f"{beside}/tokenize", {**plain, "parse_special": True}) if made else {}
                    told = {"count": len(told["tokens"])} if "tokens" in told else {}
                if "count" in told:
                    return int(told["count"])
                answer = await ask(f"{url}/chat/completions", {**body, "max_tokens": 1, "temperature": 0}, must=True)
                return int(answer["usage"]["prompt_tokens"])

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
