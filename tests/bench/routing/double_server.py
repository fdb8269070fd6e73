"""The double's API: `python -m tests.bench.routing.double_server PORT SPEED PIECE`, one engine a process.

What OpenAI's clients and LiteLLM ask of vLLM, as far as this bench and its tests do.
"""

from __future__ import annotations

import asyncio
import json
import sys
from typing import Any

from tests.bench.routing.double import CHARACTERS, Double, Sequence
from tests.bench.routing.http import LIMIT, read_head


class Server:
    """One connection is one request; `piece`: tokens of a piece of a stream, as vLLM's --stream-interval."""

    def __init__(self, double: Double, piece: int) -> None:
        self.double, self.piece = double, piece

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """A connection, as long as it lasts."""
        try:
            while first_and_headers := await read_head(reader):
                first, headers = first_and_headers
                if not first:
                    return
                path = first.split()[1]
                body = await reader.readexactly(int(headers.get("content-length", 0)))
                await self._answer(path, json.loads(body) if body else {}, reader, writer)
        except (OSError, asyncio.IncompleteReadError):
            return
        finally:
            writer.close()

    async def _answer(
        self, path: str, asked: dict[str, Any], reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> None:
        if path == "/metrics":
            return await _send(writer, 200, self.double.metrics().encode())
        if path in ("/health", "/v1/models"):
            return await _send(writer, 200, json.dumps({"data": [{"id": "double"}]}).encode())
        if path == "/tokenize":
            return await _send(writer, 200, json.dumps({"count": len(asked["prompt"].split())}).encode())
        if asked.get("max_tokens", 1) < 1:
            # As vLLM: the request itself is wrong.
            wrong = {"error": {"message": "max_tokens must be at least 1", "type": "BadRequestError", "code": 400}}
            return await _send(writer, 400, json.dumps(wrong).encode())
        sequence = self.double.begin(_prompt(asked), 1 if "input" in asked else asked.get("max_tokens", 16))
        gone = asyncio.ensure_future(_gone(reader))
        work = asyncio.ensure_future(self._stream(path, asked, sequence, writer))
        try:
            await asyncio.wait({gone, work}, return_when=asyncio.FIRST_COMPLETED)
            if not work.done():
                raise ConnectionError("the client is gone")
            work.result()
        finally:
            self.double.drop(sequence)
            work.cancel()
            gone.cancel()
            await asyncio.wait({gone})
        return None

    async def _stream(self, path: str, asked: dict[str, Any], sequence: Sequence, writer: asyncio.StreamWriter) -> None:
        chat, text, start = "chat" in path, "", _before(asked)
        head = {"id": "double", "created": 0, "model": asked.get("model")}
        kind = "chat.completion.chunk" if chat else "text_completion"
        streams, began = bool(asked.get("stream")), False

        async def say(choices: list[Any], **more: Any) -> None:
            chunk = json.dumps({**head, "object": kind, "choices": choices, **more})
            writer.write(_chunk(f"data: {chunk}\n\n".encode()))
            await writer.drain()

        held = ""
        while (token := await sequence.tokens.get()) is not None:
            held += f"{start + token - 1} "
            if token % self.piece and token != 1 and token != sequence.wanted:
                continue
            text, piece, held = text + held, held, ""
            if not streams:
                continue
            if not began:
                began = True
                writer.write(_head(200, "text/event-stream", None))
            await say([_choice(chat, asked, piece, None, first=token == 1)])
        usage = {"prompt_tokens": sequence.size, "completion_tokens": sequence.answered}
        usage["total_tokens"] = sum(usage.values())
        reason = "tool_calls" if asked.get("tools") else "length"
        if streams:
            await say([_choice(chat, asked, "", reason)])
            if (asked.get("stream_options") or {}).get("include_usage"):
                await say([], usage=usage)
            writer.write(_chunk(b"data: [DONE]\n\n") + b"0\r\n\r\n")
            return await writer.drain()
        if "input" in asked:
            vector = {"object": "embedding", "index": 0, "embedding": [0.5, 0.5]}
            whole: dict[str, Any] = {"object": "list", "data": [vector]}
        else:
            said: Any = {"message": {"role": "assistant", "content": text}} if chat else {"text": text}
            whole = {**head, "object": kind.removesuffix(".chunk"), "choices": [{**said, **_end(reason)}]}
        return await _send(writer, 200, json.dumps({**whole, "usage": usage}).encode())


async def _gone(reader: asyncio.StreamReader) -> None:
    """Until the client has closed; its next request is not touched."""
    while not reader.at_eof() and reader.exception() is None:
        await asyncio.sleep(0.05)


def _end(reason: str | None) -> dict[str, Any]:
    return {"index": 0, "finish_reason": reason}


def _choice(chat: bool, asked: dict[str, Any], text: str, reason: str | None, first: bool = False) -> dict[str, Any]:
    if not chat:
        return {"text": text} | _end(reason)
    delta: dict[str, Any] = {"role": "assistant"} if first else {}
    if asked.get("tools") and text:
        call = {"id": "call-1", "type": "function"} if first else {}
        named = {"name": asked["tools"][0]["function"]["name"]} if first else {}
        delta["tool_calls"] = [{"index": 0, **call, "function": {**named, "arguments": text}}]
    else:
        delta["content"] = text
    return {"delta": delta} | _end(reason)


def _prompt(asked: dict[str, Any]) -> str:
    """The text that is read; token ids stand for CHARACTERS characters each."""
    if "messages" in asked:
        return "".join(f"<{each['role']}>{each['content']}" for each in asked["messages"])
    prompt = asked.get("prompt", asked.get("input", ""))
    return prompt if isinstance(prompt, str) else "".join(str(each).rjust(CHARACTERS) for each in prompt)


def _before(asked: dict[str, Any]) -> int:
    """How many numbers the answer has already."""
    if not asked.get("continue_final_message"):
        return 0
    return len(asked["messages"][-1]["content"].split())


def _head(status: int, kind: str, size: int | None) -> bytes:
    length = "Transfer-Encoding: chunked" if size is None else f"Content-Length: {size}"
    return f"HTTP/1.1 {status} Double\r\nContent-Type: {kind}\r\n{length}\r\n\r\n".encode()


def _chunk(data: bytes) -> bytes:
    return f"{len(data):x}\r\n".encode() + data + b"\r\n"


async def _send(writer: asyncio.StreamWriter, status: int, body: bytes) -> None:
    writer.write(_head(status, "application/json", len(body)) + body)
    await writer.drain()


async def _main(port: int, speed: float, piece: int) -> None:
    double = Double(speed)
    # A backlog for a burst, which vLLM has too.
    server = await asyncio.start_server(Server(double, piece).serve, "127.0.0.1", port, limit=LIMIT, backlog=1024)
    async with server:
        await double.run()


if __name__ == "__main__":
    asyncio.run(_main(int(sys.argv[1]), float(sys.argv[2]), int(sys.argv[3])))
