"""A callback of LiteLLM's, and in its application (ASGI): requests go to an engine, and its answers back, as bytes.

LiteLLM makes an object of each chunk of a stream, several times: 0.8 ms of CPU a chunk, and 20 ms a request. Here its
router chooses the engine and everything else is the engine's own words. A stream whose engine dies goes on from another
(resume.py). What the owner tells LiteLLM itself goes LiteLLM's way. Of anybody else's bodies it gets none: its own code
takes much that is wrong in one for a failure of its own, or of an engine.
"""

from __future__ import annotations

import asyncio
import re
from typing import Any

import attempts
import comes_back
import door_bounds
import models
import orjson
import plain
import protocols
import shapes
import suspects
from attempts import EVENT, Broken, Failure, Nobody, Question, Refusal, streams
from avoided import avoid
from door_answers import Said, away, no_model, not_spoken, odd, say, too_much
from door_body import admit, goes_elsewhere, not_for_clients
from door_limits import Refused
from events import Events
from litellm.integrations.custom_logger import CustomLogger
from litellm.proxy import proxy_server
from resume import Answer, choices, used_up

PATHS = re.compile(
    r"(?:/v1)?/(chat/completions|completions|embeddings|rerank|score|messages(?:/count_tokens)?|responses|tokenize"
    r"|detokenize)|/v2/(rerank)"
)
_MODELS = re.compile(protocols.MODELS)
#: Engines that one answer is tried on after the first.
RETRIES = 3
#: By which an engine refuses a request: another one would as well.
_REFUSED = (400, 422)
_STREAM = b"text/event-stream; charset=utf-8"
_DONE = b"data: [DONE]\n\n"
#: Why an answer has ended, as an engine says that is stopped; within an answer's own text quotes are escaped.
_ABORTED, _ABORTED_WHOLE = "abort", b'"finish_reason":"abort"'


class Passthrough:
    """Before LiteLLM's routes, behind the door."""

    def __init__(self, application: Any) -> None:
        self.application = application

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        is_http = scope["type"] == "http"
        if is_http and scope["method"] == "GET" and (listed := _MODELS.fullmatch(scope["path"])):
            await say(scope, receive, send, models.answer(listed[1].removeprefix("/")))
            return
        is_post = is_http and scope["method"] == "POST"
        found = PATHS.fullmatch(scope["path"]) if is_post else None
        if not found or any(name == b"content-encoding" for name, _ in scope["headers"]):
            await self.application(scope, receive, send)
            return
        body = await _read(receive)
        if body is None:
            return
        asked = _object(body)
        if asked is not None and goes_elsewhere(asked) and not not_for_clients(asked):
            await self.application(scope, _once_more(body, receive), send)
            return
        question = _question(found[1] or found[2], asked)
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
    suspects.current.set(suspects.Request(question.path.encode() + b" " + question.body))
    try:
        if plain.is_one(question):
            said = await plain.run(question, send)
        elif streams(question.path, question.asked):
            said = await _Stream(question, send).run()
        else:
            said = await _whole(question)
    except Nobody:
        said = away(comes_back.after_s(proxy_server.llm_router, question.model))
    except Refusal as refusal:
        said = (refusal.status, refusal.body, [])
    if said:
        await say(scope, receive, send, _speaks(question.path, said))


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
            if _ABORTED_WHOLE in body:
                await attempts.failed(engine, Broken("it is stopped"))
                continue
            return response.status, body, []
    raise Nobody


def _speaks(path: str, said: Said) -> Said:
    """An engine that does not know a path has no words of its own for it."""
    if said[0] == 404 and b'"Not Found"' in said[1]:
        return not_spoken(path)
    return said


class _Stream:
    """One stream to a client."""

    def __init__(self, question: Question, send: Any) -> None:
        self.question, self.send, self.asked = question, send, question.asked
        self.answer, self.has_begun, self.continued = Answer(choices(question.path, question.asked)), False, False
        #: What an engine said that would not begin.
        self.refusal: Said | None = None
        #: The failure with which an engine began its stream.
        self.failure: bytes | None = None

    async def run(self) -> Said | None:
        """The stream, from as many engines as it takes; or what the client is told instead of one. Raises Nobody where
        none begins one.
        """
        try:
            for _ in range(1 + RETRIES):
                if await self._from_one():
                    return self.refusal
                self.continued = True
            raise Nobody
        except (Nobody, Refusal) as error:
            if not self.has_begun:
                raise
            words = error.body if isinstance(error, attempts.Deadly) else away()[1]
        # The status is long sent: the end says that it is none.
        await self._pass_on(b"data: " + words + b"\n\n", False)
        return None

    async def _from_one(self) -> bool:
        """What an engine gives; whether that is the end of the answer. Else `question` is for the rest of it."""
        async with attempts.answer(self.question) as (response, engine):
            try:
                if response.content_type != "text/event-stream":
                    body = await response.read()
                    # An engine refuses: before the first byte that is an answer like others.
                    if self.has_begun and response.status in _REFUSED:
                        raise Nobody
                    if self.has_begun:
                        raise Broken(f"HTTP {response.status}")
                    self.refusal = (response.status, body, [])
                    return True
                await self._begin()
                events = Events()
                async for part in response.content.iter_any():
                    whole = events.take(part)
                    if whole and await self._pass_events(whole.removesuffix(b"\n\n")):
                        return True
                    if len(events) > EVENT:
                        raise Broken(f"an event of more than {EVENT} bytes")
                raise Broken
            except (*attempts.AWAY, Broken) as error:
                if isinstance(error, Failure) and await attempts.has_died(engine):
                    pass
                elif isinstance(error, Failure) and not (self.answer.pieces or self.answer.thoughts):
                    if self.failure == error.event:
                        # A second engine says the same: it is the request's.
                        await self._pass_on(error.event + b"\n\n" + _DONE, False)
                        return True
                    self.failure = error.event
                    avoid(engine)
                else:
                    await attempts.failed(engine, error)
                self.answer.broke_off(await self._tokens())
                print(f"tandem: an engine broke off after {self.answer.tokens_before} tokens ({type(error).__name__})")
        return await self._is_over(engine["model_info"].get("continues"))

    async def _tokens(self) -> int | None:
        """Of the text that the client has, where that may be continued and an engine counts them."""
        may_go_on = "messages" in self.asked and self.answer.choices == 1
        return await attempts.tokens(self.answer.text, self.question.model) if may_go_on else None

    async def _is_over(self, words: dict[str, Any] | None) -> bool:
        """Whether the client has all that it can have; another engine is asked for the rest, with its kind's `words`
        for it. Raises Nobody.
        """
        if self.answer.is_whole:
            await self._pass_on(_DONE, False)
            return True
        body = self.answer.rest(self.asked, words)
        if body is None:
            raise Nobody
        if self.answer.last and used_up(body):
            await self._pass_on(_event(self.answer.ended()) + _DONE, False)
            return True
        self.question = Question(self.question.path, body)
        return False

    async def _pass_events(self, events: bytes) -> bool:
        """Events that are whole; whether the last of the stream was among them. Raises Broken at an engine's error."""
        passed = list[bytes]()
        try:
            for event in events.split(b"\n\n"):
                if event == b"data: [DONE]":
                    # A beam may end without a word why.
                    if not self.answer.is_whole and not self.asked.get("use_beam_search"):
                        raise Broken("it ended before its answer")
                    passed += [*map(_event, self.answer.held), _DONE]
                    return True
                passed += self._chunks(event)
            return False
        finally:
            if passed:
                suspects.shows()
            # What came before an error is a part of the answer, and goes on with the rest of it.
            await self._pass_on(b"".join(passed), passed[-1:] != [_DONE])

    def _chunks(self, event: bytes) -> list[bytes]:
        """What the client gets of an event now."""
        chunk = _object(event.removeprefix(b"data: ")) if event.startswith(b"data: ") else None
        if chunk is None:
            return [event + b"\n\n"]
        if _is_aborted(chunk):
            raise Broken("it is stopped")
        if _is_failure(chunk):
            raise Failure(event)
        given = self.answer.pass_on(chunk, self.continued)
        if not self.continued and len(given) == 1 and given[0] is chunk:
            return [event + b"\n\n"]
        return [*map(_event, given)]

    async def _begin(self) -> None:
        if not self.has_begun:
            self.has_begun = True
            headers = [(b"content-type", _STREAM), (b"cache-control", b"no-cache")]
            await self.send({"type": "http.response.start", "status": 200, "headers": headers})

    async def _pass_on(self, part: bytes, more: bool) -> None:
        if part or not more:
            await self.send({"type": "http.response.body", "body": part, "more_body": more})


def _question(path: str, asked: dict[str, Any] | None) -> Question | Said:
    """What an engine is asked, to a model of this service and to nobody else; or what is wrong with it."""
    if asked is None:
        return odd("the body is no JSON object")
    router, model = proxy_server.llm_router, asked.get("model")
    if not isinstance(model, str):
        return odd("`model`: a name is wanted, as `GET /v1/models` lists them")
    if why := not_for_clients(asked) or shapes.wrong(path, asked) or protocols.wrong(path, asked):
        return odd(why)
    if why := door_bounds.wrong(asked):
        return odd(why)
    if router is None or model not in router.model_names:
        return no_model()
    answers = choices(path, asked) if path.endswith("completions") else 1
    if answers > door_bounds.AT_ONCE:
        return odd(f"this asks for {answers} answers (`n` for each prompt), {door_bounds.AT_ONCE} are the most")
    if refused := admit(asked, streams(path, asked), answers):
        return too_much(refused) if isinstance(refused, Refused) else odd(refused)
    try:
        return Question(path, asked)
    except TypeError:
        return odd("the body has lists and objects that are too deep in one another")


def _object(text: bytes) -> dict[str, Any] | None:
    try:
        said = orjson.loads(text)
    except ValueError:
        return None
    return said if isinstance(said, dict) else None


def _event(chunk: dict[str, Any]) -> bytes:
    text: bytes = orjson.dumps(chunk)
    return b"data: " + text + b"\n\n"


def _is_aborted(chunk: dict[str, Any]) -> bool:
    """Whether an engine is stopped (a reboot, a renewal): it ends answers as if they were whole, with a word for it."""
    return any(each.get("finish_reason") == _ABORTED for each in chunk.get("choices") or () if isinstance(each, dict))


def _is_failure(chunk: dict[str, Any]) -> bool:
    """Whether an engine says in a stream that it can't go on; what it holds against the request is the client's."""
    said = chunk.get("error")
    code = said.get("code") if isinstance(said, dict) else None
    return "choices" not in chunk and said is not None and not (isinstance(code, int) and 400 <= code < 500)


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


callback = CustomLogger()
_application = Passthrough(proxy_server.app.middleware_stack or proxy_server.app.build_middleware_stack())
for _each in proxy_server.app.user_middleware:
    # A page in a browser is told by LiteLLM whom it may ask.
    if _each.cls.__name__ == "CORSMiddleware":
        _application = _each.cls(_application, *_each.args, **_each.kwargs)
# Callbacks are loaded while the application starts: too late for add_middleware.
proxy_server.app.middleware_stack = _application
