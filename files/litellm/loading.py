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
from door_answers import not_for, not_loaded
from litellm.proxy import proxy_server

#: What the hash is over, beside the key; files/ondemand/wishes.py has the same.
FOR = b"tandem: models on demand"
#: Seconds for which a word of the node holds: that a model is loaded, and that it is not yet.
LOADED_S, WAITS_S = 2.0, 0.9
#: Seconds that a node has for who only looks, and for which a look goes by it that it does not answer. `tandem status`
#: waits 2.5 s for the list of models (ANSWER_S of operations/node/look/status.py).
LOOK_S, DARK_S = 1.5, 15.0
#: Seconds for the node to answer, and for which one that does not, or where others serve, is asked again for a stream
#: that has begun: systemd may be slow, twice, while the node has no word for anybody, and who serves is done soon.
ASK_S, GONE_S = 3.0, 60.0
#: Seconds after which a stream is told again how far it is. More often ends it: go-openai gives up behind 300 lines
#: without data.
TOLD_S = 15.0
#: Seconds that a client is told at least and at most (comes_back.py says why), and where the node does not answer.
LEAST_S, MOST_S, AWAY_S = 2, 60, 30

_SPEAKS = ("chat/", "completions", "messages", "responses", "audio/")
#: How paths begin (protocols.py) on which a model has no answer, whatever its engine, by what it is asked for (`mode`).
#: Where one engine may have one (SGLang scores with chat models), the path is not here.
NOT_FOR: dict[str, tuple[str, ...]] = {
    "chat": ("embeddings",),
    "transcription": ("embeddings", "rerank", "score"),
    **dict.fromkeys(("embedding", "rerank", "classify", "reward"), _SPEAKS),
}


class Told(NamedTuple):
    """`state`: loaded, waits, no, failed, or away: its node does not answer. `until`: it holds for so long."""

    state: str
    after_s: int
    says: str
    until: float = 0.0

    @property
    def is_fresh(self) -> bool:
        return time.monotonic() < self.until


class NotLoaded(Refusal):
    """A model is not loaded, and this request does not wait for it."""

    def __init__(self, told: Told) -> None:
        after_s = max(LEAST_S, min(told.after_s, MOST_S))
        status, body, headers = not_loaded(told.says, after_s, has_failed=told.state == "failed")
        super().__init__(status, body)
        self.headers = headers


#: What was heard last, by the URL at which a model is asked for; of wishes, and of looks alone.
_heard = dict[tuple[str, bool], Told]()
_asking = defaultdict[tuple[str, bool], asyncio.Lock](asyncio.Lock)


def asked_at(model: str, path: str) -> str:
    """The URL at which a model's node is asked to load it; empty: it stays loaded. Raises Refusal for a path on which
    it has no answer: it is loaded for none.
    """
    router = proxy_server.llm_router
    entries = (router.get_model_list(model_name=model) if router else None) or []
    about = next((known for each in entries if (known := each.get("model_info", {})).get("loaded_by")), None)
    if about is None:
        return ""
    if path.startswith(NOT_FOR.get(about.get("mode") or "chat", ())):
        status, body, _ = not_for(path)
        raise Refusal(status, body)
    return str(about["loaded_by"])


async def loaded(model: str, path: str) -> None:
    """Returns where a model is loaded, and wants it. Raises NotLoaded, and Refusal as `asked_at` does."""
    if (url := asked_at(model, path)) and (told := await tell(url)).state != "loaded":
        raise NotLoaded(told)


async def until_loaded(model: str, path: str) -> AsyncIterator[str]:
    """How far it is, as often as a stream is told; ends when it is loaded. Raises NotLoaded (it won't be for now), and
    Refusal as `asked_at` does.
    """
    url = asked_at(model, path)
    if not url:
        return
    said_at, heard_at, has_waited = 0.0, time.monotonic(), False
    while (told := await tell(url)).state != "loaded":
        now = time.monotonic()
        if told.state == "waits":
            heard_at = now
        elif told.state == "failed" or not (has_waited and now - heard_at < GONE_S):
            raise NotLoaded(told)
        has_waited = True
        if now - said_at >= TOLD_S:
            said_at = now
            yield " ".join(told.says.split())
        await asyncio.sleep(WAITS_S)


async def is_loaded(url: str) -> bool | None:
    """Whether it is, by its node's word, or None: the node says nothing. Nobody wants it by that."""
    state = (await tell(url, wants=False)).state
    return None if state == "away" else state == "loaded"


async def tell(url: str, *, wants: bool = True) -> Told:
    """Ask the node of a model how far it is; an answer that still holds is not asked for again."""
    async with _asking[url, wants]:
        told = _heard.get((url, wants))
        if told is None or not told.is_fresh:
            was, told = told, await _ask(url, wants)
            is_away = told.state == "away"
            if is_away and wants and was is not None and was.state == "loaded":
                # Who is not there unloads nothing: the program of the node starts anew, at a deploy say.
                told = told._replace(state="loaded")
            holds_s = DARK_S if is_away and not wants else LOADED_S if told.state == "loaded" else WAITS_S
            told = _heard[url, wants] = told._replace(until=time.monotonic() + holds_s)
        return told


async def _ask(url: str, wants: bool) -> Told:
    headers = {"Authorization": f"Bearer {_shown(os.environ['LITELLM_MASTER_KEY'])}"}
    try:
        async with (
            asyncio.timeout(ASK_S if wants else LOOK_S),
            attempts.session().request("POST" if wants else "GET", url, headers=headers) as response,
        ):
            response.raise_for_status()
            said: Any = await response.json()
            return Told(str(said["state"]), int(said["after_s"]), str(said["says"]))
    except (aiohttp.ClientError, OSError, TimeoutError, ValueError, KeyError, TypeError) as error:
        print(f"tandem: {url} does not say whether its model is loaded: {type(error).__name__}")
        says = "the node that loads this model does not answer; `tandem status` says why"
        return Told("away", AWAY_S, says)


def _shown(secret: str) -> str:
    """A hash of the key, by which the node knows that we have it. It opens nothing else."""
    return hmac.new(secret.strip().encode(), FOR, hashlib.sha256).hexdigest()
