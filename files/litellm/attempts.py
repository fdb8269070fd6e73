"""A request to an engine that LiteLLM's router chooses, and to another one when that one fails.

The router is asked for each try, with all filters (last_resort.py, balanced.py), and is told who has failed; what
is sent and what comes back are the engine's own bytes.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from functools import partial
from typing import Any

import aiohttp
import comes_back
import orjson
import suspects
from avoided import avoid
from door_answers import ends_engines
from door_body import has_asked
from litellm.constants import AIOHTTP_KEEPALIVE_TIMEOUT
from litellm.llms.custom_httpx import http_handler
from litellm.proxy import proxy_server
from protocols import ROOT

#: Seconds for an engine to take a connection, and between two signs of its answer: a GB10 reads a prompt of 200,000
#: tokens for two minutes.
CONNECT_S, SILENT_S = 5.0, 900.0
#: Seconds before an engine is asked again that has just failed.
PAUSE_S = 1.0
#: Seconds for an engine to count the tokens of a text, and to say that it lives.
COUNT_S, LIVES_S = 5.0, 2.0
#: By which an engine, or what stands before it, says that it is not there for now. Any other 5xx may be the request's.
_FOR_NOW = (502, 503, 504)
#: Bytes of an engine's words about a request that it could not answer.
WORDS = 1 << 20
#: Bytes of an event (a chunk with many log probabilities has some 100,000): an engine that sends more is broken.
EVENT = 16 << 20
#: Lists and objects in one another of which orjson writes no more.
DEPTH = 254
#: What a connection raises that its other end, or the way there, has ended.
AWAY = (aiohttp.ClientError, OSError, TimeoutError)


class Nobody(Exception):
    """No engine answers."""


class Broken(Exception):
    """An engine's stream has ended in its middle."""


class Dead(Broken):
    """An engine has said that it can't go on, with anything."""


class Failure(Broken):
    """An engine says in a stream that it can't go on."""

    def __init__(self, event: bytes) -> None:
        super().__init__("an error of the engine's")
        self.event = event


class Refusal(Exception):
    """A failure that is the client's answer: no further engine is tried. Engines fail alike over the request or die
    of it, or its model is not loaded (loading.py).
    """

    headers: list[tuple[bytes, bytes]] = []

    def __init__(self, status: int, body: bytes) -> None:
        super().__init__(status)
        self.status, self.body = status, body


class Deadly(Refusal):
    """Engines have died over a request."""


@dataclass
class Question:
    """What an engine is asked. `path`: below /v1. `asked`: the body as an object, or the fields of a form whose bytes
    are `body`. `kind`: the content-type.
    """

    path: str
    asked: dict[str, Any]
    body: bytes = b""
    kind: str = "application/json"

    def __post_init__(self) -> None:
        """Raises TypeError or ValueError: it can't be sent on."""
        self.body = self.body or written(self.asked)

    @property
    def model(self) -> str:
        """The name under which the router knows it, and the engine."""
        return str(self.asked["model"])

    @property
    def tools(self) -> list[dict[str, Any]]:
        """As far as the router can look at them; what is none of that kind is the engine's to refuse."""
        found = self.asked.get("tools")
        return found if isinstance(found, list) and all(isinstance(each, dict) for each in found) else []


_session: aiohttp.ClientSession | None = None


def session() -> aiohttp.ClientSession:
    """One for the process. Its connections are of LiteLLM's own kind (links.py, and its environment in
    litellm_service.py of operations/plan): one over a cut rail ends, and none is kept until vLLM closes it.
    """
    global _session
    if _session is None:
        connector = aiohttp.TCPConnector(
            limit=0,
            keepalive_timeout=AIOHTTP_KEEPALIVE_TIMEOUT,
            socket_factory=http_handler.build_aiohttp_keepalive_socket_factory(),
        )
        timeout = aiohttp.ClientTimeout(total=None, sock_connect=CONNECT_S, sock_read=SILENT_S)
        _session = aiohttp.ClientSession(connector=connector, timeout=timeout, auto_decompress=False)
    return _session


@asynccontextmanager
async def answer(question: Question) -> AsyncIterator[tuple[aiohttp.ClientResponse, Any]]:
    """An engine's answer that has begun, and the engine; raises Nobody where none begins one, and Refusal.

    An engine that fails over a request is asked nothing more of it, but for others it stays: what a request does to one
    engine it does to the next. When the next one answers, the first is left alone for a while.
    """
    router = proxy_server.llm_router
    assert router
    tried = set[str]()
    blamed: tuple[int, Any] | None = None
    for _ in range(1 + int(router.num_retries)):
        _judge()
        engine = await choose(question)
        url = _url(engine, question.path)
        if url in tried:
            await asyncio.sleep(PAUSE_S)
        tried.add(url)
        has_asked()
        async with _counted(question.model, engine):
            if await stays_dead(engine):
                continue
            # Who has waited for its turn may be known by now: the same was asked by another client.
            _judge()
            try:
                response = await session().post(url, data=question.body, headers={"Content-Type": question.kind})
            except AWAY as error:
                await failed(engine, error)
                continue
            async with response:
                if response.status < 500:
                    if blamed:
                        await failed(blamed[1], Broken(f"HTTP {blamed[0]}"))
                    yield response, engine
                    return
                if response.status in _FOR_NOW:
                    await failed(engine, Broken(f"HTTP {response.status}"))
                    continue
                if await has_died(engine):
                    continue
                if blamed and blamed[0] == response.status:
                    raise Refusal(response.status, await response.content.read(WORDS))
                blamed = (response.status, engine)
                avoid(engine)
    if blamed:
        await failed(blamed[1], Broken(f"HTTP {blamed[0]}"))
    raise Nobody


def told(response: aiohttp.ClientResponse) -> list[tuple[bytes, bytes]]:
    """Headers of an answer that belong to its body: what it is, and how vectors lie in it."""
    return [
        (name.lower(), value) for name, value in response.raw_headers if name.lower() in (b"content-type", b"metadata")
    ]


def _url(engine: Any, path: str) -> str:
    base = str(engine["litellm_params"]["api_base"])
    return f"{base.removesuffix('/v1') if path in ROOT else base}/{path}"


async def choose(question: Question) -> Any:
    """The router's entry of an engine; raises Nobody."""
    router = proxy_server.llm_router
    assert router
    try:
        return await router.async_get_available_deployment(
            model=question.model, messages=question.asked.get("messages"), request_kwargs={"tools": question.tools}
        )
    except Exception as error:
        # LiteLLM has several kinds for it, by how many engines there are and what they have done.
        print(f"tandem: no engine to choose: {type(error).__name__}")
        raise Nobody from error


def _judge() -> None:
    """Raises Deadly where engines have died over the request under way and it is known for that, and Nobody where two
    have and others may be the reason.
    """
    request = suspects.current.get()
    if request and request.level() == suspects.KNOWN:
        status, body, _ = ends_engines(suspects.REMEMBERED_S // 60)
        raise Deadly(status, body)
    if request and request.deaths > 1:
        raise Nobody


async def failed(engine: Any, error: BaseException) -> None:
    """The router leaves the engine alone for a while; one that has died is told of to suspects.py."""
    address = str(engine["litellm_params"]["api_base"])
    broke = isinstance(error, Dead) or (type(error) is Broken and not error.args)
    broke = broke or (isinstance(error, AWAY) and suspects.is_death(error))
    company = broke and suspects.in_company(address)
    _leave(engine, error)
    comes_back.gone(address, partial(lives, engine))
    if broke and (isinstance(error, Dead) or not await lives(engine)):
        comes_back.mark_gone(address)
        suspects.died(address, company)


async def has_died(engine: Any) -> bool:
    """Whether an engine that has failed over a request can do nothing more; then it is left alone. vLLM's server says
    for a moment that its core has died.
    """
    if await lives(engine):
        return False
    await failed(engine, Dead("it has died"))
    return True


async def stays_dead(engine: Any) -> bool:
    """Whether an engine that has died is still the same; then it is left alone. Its server takes requests for some
    seconds more: what breaks with those has ended no engine.
    """
    address = str(engine["litellm_params"]["api_base"])
    if not comes_back.is_gone(address):
        return False
    if await lives(engine):
        # A LiteLLM that has started since then looks, too.
        comes_back.gone(address, partial(lives, engine))
        return False
    await failed(engine, Broken("it has died"))
    return True


async def lives(engine: Any) -> bool:
    """Whether an engine takes connections, and does not say itself that it can't answer."""
    url = str(engine["litellm_params"]["api_base"]).removesuffix("/v1") + "/health"
    try:
        async with asyncio.timeout(LIVES_S), session().get(url) as response:
            return response.status != 503
    except AWAY:
        return False


def _leave(engine: Any, error: BaseException) -> None:
    router = proxy_server.llm_router
    assert router
    name, kind = engine["model_info"]["id"], Exception(type(error).__name__)
    router.cooldown_cache.add_deployment_to_cooldown(name, kind, 503, router.cooldown_time)
    print(f"tandem: {engine['litellm_params']['api_base']} failed ({type(error).__name__}): left alone for a while")


@asynccontextmanager
async def _counted(model: str, engine: Any) -> AsyncIterator[None]:
    """An engine is asked. LiteLLM's strategy least-busy counts what it is told of."""
    counts = getattr(proxy_server.llm_router, "leastbusy_logger", None)
    about = {"litellm_params": {"metadata": {"model_group": model}, "model_info": {"id": engine["model_info"]["id"]}}}
    if counts:
        counts.log_pre_api_call(model, [], about)
    try:
        async with suspects.asking(str(engine["litellm_params"]["api_base"]), partial(_all_engines, model)):
            yield
    finally:
        if counts:
            counts.log_success_event(about, None, None, None)


def _all_engines(model: str) -> str:
    """One address by which all engines of a model are known; its adapters have the same engines, and the same word."""
    router = proxy_server.llm_router
    assert router
    found = router.get_model_list(model_name=model) or []
    return min((str(each["litellm_params"]["api_base"]) for each in found), default=model)


async def tokens(text: str, model: str) -> int | None:
    """How many tokens a text has, as an engine counts them; None where none does."""
    router, asked = proxy_server.llm_router, {"model": model, "prompt": text, "add_special_tokens": False}
    for engine in (router.get_model_list(model_name=model) or []) if router and text else []:
        url = str(engine["litellm_params"]["api_base"]).removesuffix("/v1") + "/tokenize"
        try:
            async with asyncio.timeout(COUNT_S), session().post(url, json=asked) as response:
                return int((await response.json())["count"])
        except (*AWAY, ValueError, KeyError, TypeError):
            continue
    return None


def written(asked: dict[str, Any]) -> bytes:
    """A body as an engine gets it. Raises TypeError where it is too deep, and ValueError where a text is none."""
    try:
        text: bytes = orjson.dumps(asked)
        return text
    except TypeError:
        if _is_deep(asked):
            raise
        # Numbers of more than 64 bits.
        return json.dumps(asked, ensure_ascii=False, separators=(",", ":"), allow_nan=False).encode()


def _is_deep(asked: dict[str, Any]) -> bool:
    """Whether it is deeper than orjson writes. What json would write depends on how deep its caller is."""
    level: list[Any] = [asked]
    for _ in range(DEPTH):
        within = (each.values() if isinstance(each, dict) else each for each in level)
        level = [each for values in within for each in values if isinstance(each, list | dict)]
    return bool(level)


def an_object(text: bytes) -> dict[str, Any] | None:
    """What a text of JSON is; None: it is no object, or no JSON."""
    try:
        said = orjson.loads(text)
    except ValueError:
        return None
    return said if isinstance(said, dict) else None
