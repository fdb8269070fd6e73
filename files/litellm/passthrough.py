"""Around LiteLLM's application (ASGI): requests go to an engine, and its answers back, as bytes.

LiteLLM makes an object of each chunk of a stream, several times: 0.8 ms of CPU a chunk, and 20 ms a request. Here its
router chooses the engine and everything else is the engine's own words. A stream whose engine dies goes on from another
(streaming.py). What the owner tells LiteLLM itself goes LiteLLM's way. It gets no body of anybody else: its own
code takes much that is wrong in one for a failure of its own, or of an engine.
"""

from __future__ import annotations

import asyncio
import codecs
import hashlib
import json
import re
from collections.abc import Sequence
from functools import partial
from typing import Any

import attempts
import chats
import comes_back
import door_bounds
import forms
import loading
import media
import models
import plain
import protocols
import shapes
import suspects
from attempts import Broken, Nobody, Question, Refusal, an_object
from door_answers import Said, away, no_model, not_spoken, odd, say, too_much
from door_body import admit, goes_elsewhere, not_for_clients, weigh
from door_limits import Refused
from litellm.proxy import proxy_server
from resume import choices
from streaming import RETRIES, Reader, Stream

_ASKED = re.compile(protocols.ASKED)
_MODELS = re.compile(protocols.MODELS)
#: Bytes of a body of which a hash is made in one step of the loop: 0.002 s.
STEP = 1 << 20
#: Bytes of a body from which on it is looked through beside the loop.
LARGE = 64 << 10
#: What is left out: names that a request may give itself with an engine, where two that are alike would meet; and
#: for how many tokens an engine says nothing, so that nobody could count them.
_LEFT_OUT = ("request_id", "rid", "stream_interval")
_TOO_LONG = f"what is no picture, film or sound has more than {door_bounds.TEXT >> 20} MiB: send less at once"
_TOO_DEEP = "the body has lists and objects that are too deep in one another, or a text that is none"
#: In an answer that is not streamed: its engine is stopped.
_ABORTED = b'"finish_reason":"%s"' % chats.ABORTED.encode()


class Passthrough:
    """Before LiteLLM's routes, behind the door."""

    def __init__(self, application: Any) -> None:
        self.application = application

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        is_http = scope["type"] == "http"
        if is_http and scope["method"] == "GET" and (listed := _MODELS.fullmatch(scope["path"])):
            await say(scope, receive, send, await models.answer(listed[1].removeprefix("/")))
            return
        is_post = is_http and scope["method"] == "POST"
        found = _ASKED.fullmatch(scope["path"]) if is_post else None
        if not found or any(name == b"content-encoding" for name, _ in scope["headers"]):
            await self.application(scope, receive, send)
            return
        body = await _read(receive)
        if body is None:
            return
        path: str = found[1] or found[2]
        form = dict(scope["headers"]).get(b"content-type", b"") if path in protocols.FORMS else b""
        if not form and body.count(b"\\") > door_bounds.TEXT:
            # Reading them takes ten times as long as reading anything else.
            await say(scope, receive, send, odd(_TOO_LONG))
            return
        asked = forms.read(body, form) if path in protocols.FORMS else an_object(body.removeprefix(codecs.BOM_UTF8))
        if isinstance(asked, dict) and goes_elsewhere(asked) and not not_for_clients(asked):
            try:
                await loading.loaded(str(asked.get("model")), path)
            except Refusal as refusal:
                await say(scope, receive, send, (refusal.status, refusal.body, refusal.headers))
                return
            await self.application(scope, _once_more(body, receive), send)
            return
        question = await _question(path, asked, body, form.decode(errors="replace"))
        # It has the body that it sends: two of a large one would be held for as long as the answer takes.
        del body
        if not isinstance(question, Question):
            await say(scope, receive, send, question)
            return
        # A client that goes takes its request along: the engine has others to do.
        serving = asyncio.ensure_future(_serve(question, scope, receive, send))
        gone = asyncio.ensure_future(_until_gone(receive))
        try:
            await asyncio.wait((serving, gone), return_when=asyncio.FIRST_COMPLETED)
            if serving.done():
                serving.result()
        finally:
            for each in (serving, gone):
                each.cancel()
            await asyncio.gather(serving, gone, return_exceptions=True)


async def _serve(question: Question, scope: Any, receive: Any, send: Any) -> None:
    suspects.current.set(suspects.Request(question.path.encode() + b" " + await _known_by(question)))
    try:
        reader = _reader(question)
        if reader:
            said = await Stream(question, send, reader).run()
        else:
            await loading.loaded(question.model, question.path)
            said = await _whole(question)
    except Nobody:
        said = away(comes_back.after_s(proxy_server.llm_router, question.model))
    except Refusal as refusal:
        said = (refusal.status, refusal.body, refusal.headers)
    if said:
        await say(scope, receive, send, _speaks(question.path, said))


async def _known_by(question: Question) -> bytes:
    """A hash of its body. That of a large one is made beside the loop: 64 MiB take a tenth of a second."""
    is_form = question.path in protocols.FORMS
    parts = forms.pieces(question.body, question.kind.encode()) if is_form else [question.body]
    return await asyncio.to_thread(_hash, parts) if len(question.body) > STEP else _hash(parts)


def _hash(parts: Sequence[bytes | memoryview]) -> bytes:
    found = hashlib.blake2b(digest_size=16)
    for part in parts:
        found.update(part)
    return found.digest()


def _reader(question: Question) -> Reader | None:
    """The reader for the stream that a request asks for; None: it asks for no stream, or its path has none."""
    if not question.asked.get("stream"):
        return None
    if question.path.endswith("completions"):
        return chats.Reader(question)
    return plain.Reader(protocols.STREAMS[question.path]) if question.path in protocols.STREAMS else None


async def _whole(question: Question) -> Said:
    """An answer that is not streamed, from as many engines as it takes; raises Nobody."""
    for _ in range(1 + RETRIES):
        async with attempts.answer(question) as (response, engine):
            try:
                body = await response.read()
                suspects.shows()
            except attempts.AWAY as error:
                await attempts.failed(engine, error)
                continue
            if _ABORTED in body:
                await attempts.failed(engine, Broken("it is stopped"))
                continue
            return response.status, body, attempts.told(response)
    raise Nobody


def _speaks(path: str, said: Said) -> Said:
    """An engine that does not know a path has no words of its own for it."""
    if said[0] == 404 and b'"Not Found"' in said[1]:
        return not_spoken(path)
    return said


async def _question(path: str, said: dict[str, Any] | str | None, body: bytes, form: str) -> Question | Said:
    """What an engine is asked, to a model of this service and to nobody else; or what is wrong with it. `form`: the
    content-type of a body that goes as it is.
    """
    if not isinstance(said, dict):
        return odd(said or "the body is no JSON object")
    asked: dict[str, Any] = said
    router, model = proxy_server.llm_router, asked.get("model")
    if not isinstance(model, str):
        return odd("`model`: a name is wanted, as `GET /v1/models` lists them")
    if why := not_for_clients(asked):
        return odd(why)
    if router is None or model not in router.model_names:
        return no_model()
    look = partial(_look, path, asked, 0 if form else len(body))
    why, found = await asyncio.to_thread(look) if len(body) > LARGE else look()
    if why:
        return odd(why)
    if found.is_rounded:
        if len(body) > door_bounds.TEXT:
            return odd("a number is 2^63 or more: send it as a text, or without pictures")
        try:
            asked = json.loads(body.removeprefix(codecs.BOM_UTF8))
        except RecursionError:
            return odd(_TOO_DEEP)
        door_bounds.numbers(asked)
    is_chat = path.endswith("completions")
    answers = max(choices(path, asked, each) for each in ("n", "best_of", "n_cmpl")) if is_chat else 1
    if answers > door_bounds.AT_ONCE:
        return odd(f"this asks for {answers} answers (`n` for each prompt), {door_bounds.AT_ONCE} are the most")
    if refused := admit(asked, is_chat and bool(asked.get("stream")), answers):
        return too_much(refused) if isinstance(refused, Refused) else odd(refused)
    for name in _LEFT_OUT:
        asked.pop(name, None)
    try:
        question = Question(path, asked, body, form) if form else Question(path, asked)
    except (TypeError, ValueError):
        return odd(_TOO_DEEP)
    weigh(len(question.body), found, int(asked["file"]) if form else 0)
    return question


def _look(path: str, asked: dict[str, Any], length: int) -> tuple[str, media.Found]:
    """Why a body is refused (empty: it is not), and the parts of it that an engine reads. `length`: of a body in JSON;
    0: it is a form.
    """
    found = media.find(asked)
    if length - sum(len(each.data) for each in found.media) > door_bounds.TEXT:
        return _TOO_LONG, found
    why = door_bounds.numbers(asked) if length else ""
    return why or shapes.wrong(path, asked) or protocols.wrong(path, asked) or door_bounds.wrong(
        path, asked, found
    ), found


async def _read(receive: Any) -> bytes | None:
    """A request's body; None: its client has gone."""
    parts, more = list[bytes](), True
    while more:
        message = await receive()
        if message["type"] == "http.disconnect":
            return None
        parts.append(message.get("body", b""))
        more = message.get("more_body", False)
    return b"".join(parts)


def _once_more(body: bytes, receive: Any) -> Any:
    """A request whose body is read once more."""
    said = False

    async def again() -> Any:
        nonlocal said
        if said:
            return await receive()
        said = True
        return {"type": "http.request", "body": body, "more_body": False}

    return again


async def _until_gone(receive: Any) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass
