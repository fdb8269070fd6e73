"""A server that costs nothing: it streams what was asked for as fast as it goes. By it the client's own limit is known.

Not a double of an engine: it computes no answer, and its tokens are what the request wants.
"""

from __future__ import annotations

import asyncio
import json
import sys

_HEAD = b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n"
#: As vLLM writes a piece of an answer.
_PIECE = json.dumps(
    {
        "id": "chatcmpl-0123456789abcdef0123456789abcdef",
        "object": "chat.completion.chunk",
        "created": 1700000000,
        "model": "free",
        "choices": [{"index": 0, "delta": {"content": "seven"}, "logprobs": None, "finish_reason": None}],
    }
)


async def _serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    try:
        while True:
            head = (await reader.readuntil(b"\r\n\r\n")).lower()
            length = next(int(line[15:]) for line in head.split(b"\r\n") if line.startswith(b"content-length:"))
            tokens = int(json.loads(await reader.readexactly(length))["max_tokens"])
            writer.write(_HEAD)
            for _ in range(tokens):
                writer.write(_chunk(f"data: {_PIECE}\n\n"))
                # Each piece goes out by itself, as an engine's does.
                await writer.drain()
                await asyncio.sleep(0)
            usage = {"prompt_tokens": 1, "completion_tokens": tokens}
            end = json.dumps({"choices": [], "usage": usage})
            writer.write(_chunk(f"data: {end}\n\ndata: [DONE]\n\n") + b"0\r\n\r\n")
            await writer.drain()
    except (asyncio.IncompleteReadError, ConnectionError):
        pass
    finally:
        writer.close()


def _chunk(text: str) -> bytes:
    data = text.encode()
    return f"{len(data):x}\r\n".encode() + data + b"\r\n"


async def _main() -> None:
    server = await asyncio.start_server(_serve, "127.0.0.1", 0)
    print(server.sockets[0].getsockname()[1], flush=True)
    # Ends with whoever has started it.
    await asyncio.get_running_loop().run_in_executor(None, sys.stdin.read)
    server.close()


if __name__ == "__main__":
    asyncio.run(_main())
