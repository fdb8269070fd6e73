"""A double of an engine that only streams: `python -m tests.bench.door.engine PORT`.

An answer has `max_tokens` chunks of a chat, with `seed` thousandths of a second between two (0: as fast as they go).
What it sends is made once, so that of the two cores most is left to what is measured. To a GET it says how many answers
it has begun.
"""

from __future__ import annotations

import asyncio
import json
import sys

_HEAD = {"id": "chatcmpl-1", "object": "chat.completion.chunk", "created": 1, "model": "double"}
_START = b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n"
#: Answers so far.
_begun = 0


def _event(text: str) -> bytes:
    event = f"data: {text}\n\n".encode()
    return f"{len(event):x}\r\n".encode() + event + b"\r\n"


def _chunk(reason: str | None, text: str = " token") -> bytes:
    choice = {"index": 0, "delta": {"content": text}, "logprobs": None, "finish_reason": reason}
    return _event(json.dumps({**_HEAD, "choices": [choice]}))


#: LiteLLM breaks off what says the same a hundred times.
_PIECES = (_chunk(None), _chunk(None, " other"))
_LAST, _DONE = _chunk("length"), _event("[DONE]") + b"0\r\n\r\n"


async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    """A connection, as long as it lasts."""
    global _begun
    try:
        while True:
            head = await reader.readuntil(b"\r\n\r\n")
            length = next((line for line in head.lower().split(b"\r\n") if line.startswith(b"content-length:")), b":0")
            body = await reader.readexactly(int(length.partition(b":")[2]))
            if not head.startswith(b"POST"):
                said = str(_begun).encode()
                writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n%b" % (len(said), said))
                continue
            _begun += 1
            asked = json.loads(body)
            count, pause = asked["max_tokens"], asked.get("seed", 0) / 1000
            writer.write(_START)
            for number in range(count):
                writer.write(_LAST if number == count - 1 else _PIECES[number % 2])
                await writer.drain()
                # Without a pause the others go on as well.
                await asyncio.sleep(pause)
            usage = {"prompt_tokens": 1, "completion_tokens": count, "total_tokens": count + 1}
            writer.write(_event(json.dumps({**_HEAD, "choices": [], "usage": usage})) + _DONE)
            await writer.drain()
    except (OSError, asyncio.IncompleteReadError):
        pass
    finally:
        writer.close()


async def main(port: int) -> None:
    """For ever."""
    server = await asyncio.start_server(serve, "127.0.0.1", port, backlog=1024)
    await server.serve_forever()


if __name__ == "__main__":
    asyncio.run(main(int(sys.argv[1])))
