"""Orders come in as lines of JSON, what happened goes out as lines of JSON; it ends with its standard input."""

from __future__ import annotations

import asyncio
import gc
import json
import os
import platform
import sys
import threading
from queue import SimpleQueue

import aiohttp

from bench.client.count import count, get
from bench.client.load import load
from bench.client.shapes import Done, Json, Line


def _tell(line: Line) -> None:
    sys.stdout.write(json.dumps(line) + "\n")
    sys.stdout.flush()


async def _obey(order: Json) -> Done:
    kind = order.pop("do")
    if kind == "load":
        held: list[Line] = []
        # Nothing but the requests while they are measured: their records are told when all are over, or every second.
        telling = asyncio.create_task(_tell_seldom(held))
        try:
            return await load(held.append, **order)
        finally:
            telling.cancel()
            _flush(held)
    if kind == "count":
        return await count(**order)
    if kind == "get":
        return await get(**order)
    return {"python": platform.python_version(), "aiohttp": aiohttp.__version__}


async def _tell_seldom(held: list[Line]) -> None:
    while True:
        await asyncio.sleep(1)
        _flush(held)


def _flush(held: list[Line]) -> None:
    while held:
        _tell(held.pop(0))


def main() -> None:
    """One order after the other."""
    # A collection in the midst of a stream is a pause that no server has made.
    gc.freeze()
    gc.disable()
    orders: SimpleQueue[str] = SimpleQueue()
    threading.Thread(target=_listen, args=(orders,), daemon=True).start()
    while True:
        _tell({"done": asyncio.run(_obey(json.loads(orders.get())))})
        gc.collect()


def _listen(orders: SimpleQueue[str]) -> None:
    for line in iter(sys.stdin.readline, ""):
        orders.put(line)
    # Whoever gave the orders is gone: what is still under way is nobody's.
    os._exit(0)


if __name__ == "__main__":
    main()
