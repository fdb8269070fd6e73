"""Models on demand, as the door sees them: a request wants one, and is sent on when it is loaded.

The node that has the model loads it (files/ondemand/ondemand.py). It is asked before a request goes to the engine,
whoever asks, and at most once in a while however many wait: so a flood is one wish, and one load. What this program has
heard in the last seconds holds; for longer than that no engine is unloaded behind a request (REST_S there).
"""

from __future__ import annotations

import asyncio
import hashlib
import hmac
import os
import time
from collections import defaultdict
from collections.abc import AsyncIterator
from typing import Any, NamedTuple

import aiohttp
import attempts
from attempts import Refusal
from door_answers import not_loaded
from litellm.proxy import proxy_server

#: What the hash is over, beside the key; files/ondemand/wishes.py has the same.
FOR = b"tandem: models on demand"
#: Seconds for which a word of the node holds: that a model is loaded, and that it is not yet.
LOADED_S, WAITS_S = 2.0, 0.9
#: Seconds for the node to answer, and for which one that does not is asked again for a stream that has begun.
ASK_S, GONE_S = 3.0, 15.0
#: Seconds after which a stream is told again how far it is.
TOLD_S = 5.0
#: Seconds that a client is told at least and at most (comes_back.py says why), and where the node does not answer.
LEAST_S, MOST_S, AWAY_S = 2, 60, 30


class Told(NamedTuple):
    """`state`: loaded, waits, no, or away: its node does not answer."""

    state: str
    after_s: int
    says: str
    when: float

    @property
    def is_fresh(self) -> bool:
        return time.monotonic() - self.when < (LOADED_S if self.state == "loaded" else WAITS_S)


class NotLoaded(Refusal):
    """A model is not loaded, and this request does not wait for it."""

    def __init__(self, told: Told) -> None:
        status, body, headers = not_loaded(told.says, max(LEAST_S, min(told.after_s, MOST_S)))
        super().__init__(status, body)
        self.headers = headers


#: What was heard last, by the URL at which a model is asked for; of wishes, and of looks alone.
_heard = dict[tuple[str, bool], Told]()
_asking = defaultdict[tuple[str, bool], asyncio.Lock](asyncio.Lock)


def asked_at(model: str) -> str:
    """The URL at which a model's node is asked to load it; empty: it stays loaded."""
    router = proxy_server.llm_router
    entries = (router.get_model_list(model_name=model) if router else None) or []
    return next((str(url) for each in entries if (url := each.get("model_info", {}).get("loaded_by"))), "")


async def loaded(model: str) -> None:
    """Returns where a model is loaded, and wants it. Raises NotLoaded."""
    if (url := asked_at(model)) and (told := await tell(url)).state != "loaded":
        raise NotLoaded(told)


async def until_loaded(model: str) -> AsyncIterator[str]:
    """How far it is, as often as a stream is told; ends when it is loaded. Raises NotLoaded: it won't be for now."""
    url = asked_at(model)
    if not url:
        return
    said_at, heard_at, has_waited = 0.0, time.monotonic(), False
    while (told := await tell(url)).state != "loaded":
        now = time.monotonic()
        if told.state != "away":
            heard_at = now
        if told.state == "no" or (told.state == "away" and not (has_waited and now - heard_at < GONE_S)):
            raise NotLoaded(told)
        has_waited = True
        if now - said_at >= TOLD_S:
            said_at = now
            yield " ".join(told.says.split())
        await asyncio.sleep(WAITS_S)


async def is_loaded(url: str) -> bool:
    """Whether it is, by its node's word; nobody wants it by that."""
    return (await tell(url, wants=False)).state == "loaded"


async def tell(url: str, *, wants: bool = True) -> Told:
    """What its node says, now or a moment ago."""
    async with _asking[url, wants]:
        told = _heard.get((url, wants))
        if told is None or not told.is_fresh:
            now = await _ask(url, wants)
            # Who is not there unloads nothing: the program of the node starts anew, at a deploy say.
            stays = told is not None and told.state == "loaded" and now.state == "away"
            told = _heard[url, wants] = now._replace(state="loaded") if stays else now
        return told


async def _ask(url: str, wants: bool) -> Told:
    headers = {"Authorization": f"Bearer {_shown(os.environ['LITELLM_MASTER_KEY'])}"}
    try:
        async with (
            asyncio.timeout(ASK_S),
            attempts.session().request("POST" if wants else "GET", url, headers=headers) as response,
        ):
            response.raise_for_status()
            said: Any = await response.json()
            return Told(str(said["state"]), int(said["after_s"]), str(said["says"]), time.monotonic())
    except (aiohttp.ClientError, OSError, TimeoutError, ValueError, KeyError, TypeError) as error:
        print(f"tandem: {url} does not say whether its model is loaded: {type(error).__name__}")
        says = "the node that loads this model does not answer; `tandem status` says why"
        return Told("away", AWAY_S, says, time.monotonic())


def _shown(secret: str) -> str:
    """What shows that we have the key, and is good for nothing else."""
    return hmac.new(secret.strip().encode(), FOR, hashlib.sha256).hexdigest()
