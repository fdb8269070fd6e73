"""As much of a server's HTTP as the double needs."""

from __future__ import annotations

import asyncio

#: Bytes of a line.
LIMIT = 1 << 22


async def read_head(reader: asyncio.StreamReader) -> tuple[str, dict[str, str]]:
    """The first line and the headers of what comes; names in small letters."""
    first = (await reader.readline()).decode()
    headers = {}
    while (line := (await reader.readline()).decode().strip()) != "":
        name, _, value = line.partition(":")
        headers[name.lower()] = value.strip()
    return first, headers
