"""As much HTTP as engines, doubles and clients of this bench need: a client that costs little more than its bytes."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlsplit

#: Bytes of a line of a stream: a chunk of LiteLLM's may hold a whole tool call.
LIMIT = 1 << 22


@dataclass
class Response:
    """An answer whose body has not been read."""

    status: int
    headers: dict[str, str]
    reader: asyncio.StreamReader

    async def lines(self) -> AsyncIterator[bytes]:
        """The body, line by line as it comes. Raises ConnectionError where it ends before its end."""
        if self.headers.get("transfer-encoding") != "chunked":
            length = self.headers.get("content-length")
            body = await (self.reader.readexactly(int(length)) if length else self.reader.read())
            for line in body.splitlines():
                yield line
            return
        rest = b""
        while True:
            size = await self.reader.readline()
            if not size:
                raise ConnectionError("the body broke off")
            piece = await self.reader.readexactly(int(size, 16) + 2)
            if piece == b"\r\n":
                break
            *whole, rest = (rest + piece[:-2]).split(b"\n")
            for line in whole:
                yield line
        if rest:
            yield rest

    async def json(self) -> Any:
        """The whole body."""
        return json.loads(b"\n".join([line async for line in self.lines()]))


@asynccontextmanager
async def request(url: str, body: Any = None, key: str = "") -> AsyncIterator[Response]:
    """A request on a connection of its own; leaving the block closes it. http alone. Raises OSError."""
    parts = urlsplit(url)
    reader, writer = await asyncio.open_connection(parts.hostname, parts.port or 80, limit=LIMIT)
    try:
        sent = b"" if body is None else json.dumps(body).encode()
        head = [f"{'GET' if body is None else 'POST'} {parts.path or '/'} HTTP/1.1", f"Host: {parts.netloc}"]
        head += ["Connection: close", "Content-Type: application/json", f"Content-Length: {len(sent)}"]
        head += [f"Authorization: Bearer {key}"] if key else []
        writer.write("\r\n".join([*head, "", ""]).encode() + sent)
        await writer.drain()
        first, headers = await read_head(reader)
        yield Response(int(first.split()[1]), headers, reader)
    except (asyncio.IncompleteReadError, IndexError) as error:
        raise ConnectionError("the connection was closed") from error
    finally:
        writer.close()


async def read_head(reader: asyncio.StreamReader) -> tuple[str, dict[str, str]]:
    """The first line and the headers of what comes; names in small letters."""
    first = (await reader.readline()).decode()
    headers = {}
    while (line := (await reader.readline()).decode().strip()) != "":
        name, _, value = line.partition(":")
        headers[name.lower()] = value.strip()
    return first, headers
