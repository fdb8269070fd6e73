"""When an engine that is gone will answer again, as far as can be known: how long it was gone when it was gone last.

Each is asked for its health from the moment that it fails until it answers. What both LiteLLM of a node have seen is
kept until the next boot (shared.py).
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable
from typing import Any

import shared

#: Seconds that a client is told at least, and at most: OpenAI's and Anthropic's programs take no notice of more
#: (openai 2.x, `_calculate_retry_timeout`).
LEAST_S, MOST_S = 2, 60
#: Seconds where an engine was never seen to come back.
UNKNOWN_S = 30
#: Seconds between two looks, and how long an engine is gone that loads: less is a connection that broke.
LOOK_S, LOADS_S = 1.0, 5.0
#: Share of the time that an engine has been gone beyond what was known, after which to try again.
LATE = 0.25
#: Seconds after which nobody waits for it any more: a node that has left, or serves alone at times only.
LEFT_S = 3600.0

_watched = dict[str, asyncio.Task[None]]()


def gone(address: str, lives: Callable[[], Awaitable[bool]]) -> None:
    """An engine has failed. `lives`: whether it answers."""
    if address not in _watched:
        _watched[address] = asyncio.get_running_loop().create_task(_watch(address, lives))


def is_gone(address: str) -> bool:
    """Whether an engine has failed, and nobody has seen it live since."""
    return _since(address) is not None


def mark_gone(address: str) -> None:
    """Keep since when an engine does not live, for both LiteLLM."""
    if not is_gone(address):
        shared.incidents.put(int(time.monotonic() * 1000), b"gone", address.encode())


async def _watch(address: str, lives: Callable[[], Awaitable[bool]]) -> None:
    was_gone = False
    try:
        while not await lives():
            was_gone = True
            mark_gone(address)
            since = _since(address)
            if since is not None and time.monotonic() - since > LEFT_S:
                shared.incidents.put(0, b"gone", address.encode())
                return
            await asyncio.sleep(LOOK_S)
        since = _since(address)
        if since is not None:
            shared.incidents.put(0, b"gone", address.encode())
            # Since when is another LiteLLM's word, which may not have seen it come back.
            if was_gone and (took := time.monotonic() - since) >= LOADS_S:
                shared.incidents.put(int(took), b"usual", address.encode())
    finally:
        del _watched[address]


def after_s(router: Any, model: str | None = None) -> int:
    """Seconds after which to ask again: until the first of the router's engines of a model, or of all, is there."""
    engines = (router.get_model_list(model_name=model) if router else None) or []
    return max(LEAST_S, min([MOST_S, *(_left_s(str(each["litellm_params"]["api_base"])) for each in engines)]))


def _left_s(address: str) -> int:
    since = _since(address)
    if since is None:
        return LEAST_S
    so_far = time.monotonic() - since
    usual = shared.incidents.get(b"usual", address.encode())
    if usual:
        return int(usual - so_far + 1 if so_far < usual else so_far * LATE)
    return int(max(UNKNOWN_S, so_far * LATE))


def _since(address: str) -> float | None:
    """When it went, monotonic; None: it is there."""
    then = shared.incidents.get(b"gone", address.encode())
    return then / 1000 if then else None
