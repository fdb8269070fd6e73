"""Clients that cost little: they look for the first chunk and for the end, and count what is between by its bytes."""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import Sequence
from dataclasses import dataclass
from urllib.parse import urlsplit

#: Bytes of the question: 4 kB.
QUESTION = "word " * 800
_CHUNK = b'"delta"'


@dataclass(frozen=True)
class Seen:
    """Of one answer: seconds to its first chunk and to its end, and its chunks."""

    first_s: float
    whole_s: float
    chunks: int


async def ask(url: str, key: str, chunks: int, pause_ms: int) -> Seen:
    """A streamed chat on a connection of its own. Raises RuntimeError where it is not whole."""
    parts = urlsplit(url)
    body = json.dumps(
        {
            "model": "double",
            "messages": [{"role": "user", "content": QUESTION}],
            "max_tokens": chunks,
            "seed": pause_ms,
            "stream": True,
        }
    ).encode()
    head = f"POST /v1/chat/completions HTTP/1.1\r\nHost: {parts.netloc}\r\nAuthorization: Bearer {key}\r\n"
    head += f"Content-Type: application/json\r\nConnection: close\r\nContent-Length: {len(body)}\r\n\r\n"
    began = time.perf_counter()
    reader, writer = await asyncio.open_connection(parts.hostname, parts.port, limit=1 << 20)
    try:
        writer.write(head.encode() + body)
        first, seen, rest = 0.0, 0, b""
        while b"[DONE]" not in rest:
            part = await reader.read(1 << 16)
            if not part:
                raise RuntimeError(f"{url}: an answer ended after {seen} of {chunks} chunks: {rest[:200]!r}")
            # A word may lie across two parts.
            rest = rest[-len(_CHUNK) + 1 :] + part
            seen += rest.count(_CHUNK)
            first = first or (time.perf_counter() - began if seen else 0.0)
        return Seen(first, time.perf_counter() - began, seen)
    finally:
        writer.close()


async def together(url: str, key: str, streams: int, chunks: int, pause_ms: int) -> Sequence[Seen]:
    """So many at once."""
    return await asyncio.gather(*(ask(url, key, chunks, pause_ms) for _ in range(streams)))
