"""Doubles of engines, and of the proxy before several: OpenAI-compatible over HTTP, computing nothing.

Its tokens are words: a prompt has as many as words and 5 more, an answer is digits by its question and comes at a pace.
Counters are vLLM's. What goes wrong is in the file `faults.json` of its folder, read at each request.

    python -m tests.benchmark.doubles.engine FOLDER NAME[=UPSTREAM,UPSTREAM ...] ...

One process for all of them: each would cost a second of CPU until it answers. Their URLs are printed in that order.
"""

from __future__ import annotations

import asyncio
import hashlib
import itertools
import json
import sys
import time
from pathlib import Path
from typing import Any

from aiohttp import ClientSession, web

FIRST_S, TOKEN_S = 0.02, 0.002
TEMPLATE = 5
CONTEXT = 4096


class Engine:
    """One server."""

    def __init__(self, folder: Path, name: str, upstream: list[str]) -> None:
        self.folder, self.name = folder, name
        self.turns = itertools.cycle(upstream) if upstream else None
        self.under_way, self.dead_until = 0, 0.0
        self.counts = dict.fromkeys(("request_success", "prompt_tokens", "generation_tokens"), 0)

    def faults(self) -> dict[str, Any]:
        try:
            found: dict[str, Any] = json.loads((self.folder / "faults.json").read_text())
        except OSError:
            return {}
        return found

    async def models(self, _: web.Request) -> web.Response:
        served = self.faults().get("served", "nemotron")
        return web.json_response({"data": [{"id": served, "max_model_len": CONTEXT}]})

    async def tokenize(self, request: web.Request) -> web.Response:
        body = await request.json()
        how = self.faults().get("counts", "messages")
        if how == "messages":
            return web.json_response({"count": tokens(body["messages"])})
        if how == "nothing" or ("content" in body and how == "no text"):
            return web.Response(status=503)
        return web.json_response({"tokens": body.get("content", "").split()})

    async def apply_template(self, request: web.Request) -> web.Response:
        """As llama-server; where it `counts` "no template" it is one from before it had that."""
        if self.faults().get("counts") == "no template":
            return web.Response(status=404)
        return web.json_response({"prompt": "a " * tokens((await request.json())["messages"])})

    async def metrics(self, _: web.Request) -> web.Response:
        lines = [f'vllm:{name}_total{{engine="0"}} {float(count)}' for name, count in self.counts.items()]
        return web.Response(text="\n".join(lines) + "\n")

    async def chat(self, request: web.Request) -> web.StreamResponse:
        body = await request.json()
        with (self.folder / f"{self.name}.requests").open("a") as file:
            file.write(json.dumps({"body": body, "key": request.headers.get("Authorization", "")}) + "\n")
        if self.turns:
            return await self._pass_on(request, body, next(self.turns))
        faults = self.faults()
        self.under_way += 1
        try:
            return await self._answer(request, body, faults)
        finally:
            self.under_way -= 1

    async def _answer(self, request: web.Request, body: Any, faults: dict[str, Any]) -> web.StreamResponse:
        if self.under_way >= faults.get("dies_of", 999):
            self.dead_until = time.monotonic() + 2
        if faults.get("refuse") or time.monotonic() < self.dead_until:
            return web.json_response({"error": "no room"}, status=500)
        wanted, prompt = int(body["max_tokens"]), tokens(body["messages"])
        text = answer(body["messages"]) if not faults.get("wrong") else "7" * 999
        wanted = min(wanted, int(faults.get("stop_after", wanted)))
        usage = {"prompt_tokens": prompt, "completion_tokens": wanted}
        if not body.get("stream"):
            return web.json_response({"choices": [{"message": {"content": text[:wanted]}}], "usage": usage})
        response = web.StreamResponse(headers={"Content-Type": "text/event-stream"})
        await response.prepare(request)
        await asyncio.sleep(FIRST_S)
        for digit in text[:wanted]:
            await _say(response, {"choices": [{"index": 0, "delta": {"content": digit}}]})
            if faults.get("break") or time.monotonic() < self.dead_until:
                return response
            await asyncio.sleep(float(faults.get("token_s", TOKEN_S)))
        await _say(response, {"choices": [], "usage": usage})
        await response.write(b"data: [DONE]\n\n")
        for name, count in (("request_success", 1), ("prompt_tokens", prompt), ("generation_tokens", wanted)):
            self.counts[name] += count
        return response

    async def _pass_on(self, request: web.Request, body: Any, upstream: str) -> web.StreamResponse:
        if request.headers.get("Authorization") != "Bearer sk-double":
            return web.json_response({"error": "key"}, status=401)
        async with ClientSession() as session, session.post(f"{upstream}/v1/chat/completions", json=body) as answered:
            kind = {"Content-Type": answered.headers["Content-Type"]}
            response = web.StreamResponse(status=answered.status, headers=kind)
            await response.prepare(request)
            async for data in answered.content.iter_any():
                await response.write(data)
            return response


async def _say(response: web.StreamResponse, piece: dict[str, Any]) -> None:
    await response.write(f"data: {json.dumps(piece)}\n\n".encode())


def tokens(messages: list[dict[str, str]]) -> int:
    """As `/tokenize` and `usage` count."""
    return sum(len(message["content"].split()) for message in messages) + TEMPLATE


def answer(messages: list[dict[str, str]]) -> str:
    """Always the same to the same question."""
    digest = hashlib.sha256(json.dumps(messages).encode()).hexdigest()
    return str(int(digest, 16)) * 40


async def _main(folder: Path, asked: list[str]) -> None:
    urls = dict[str, str]()
    for each in asked:
        name, _, upstream = each.partition("=")
        engine = Engine(folder, name, [urls[other] for other in upstream.split(",") if other])
        application = web.Application(client_max_size=2**26)
        application.router.add_get("/v1/models", engine.models)
        application.router.add_get("/metrics", engine.metrics)
        application.router.add_post("/tokenize", engine.tokenize)
        application.router.add_post("/apply-template", engine.apply_template)
        application.router.add_post("/v1/chat/completions", engine.chat)
        # Ends with its process.
        runner = web.AppRunner(application)
        await runner.setup()
        await web.TCPSite(runner, "127.0.0.1", 0).start()
        urls[name] = f"http://127.0.0.1:{runner.addresses[0][1]}"
        print(urls[name], flush=True)
    # Ends with whoever has started it.
    await asyncio.get_running_loop().run_in_executor(None, sys.stdin.read)


if __name__ == "__main__":
    asyncio.run(_main(Path(sys.argv[1]), sys.argv[2:]))
