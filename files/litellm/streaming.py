"""A stream to a client, from as many engines as it takes.

How the events of a protocol are read, and what becomes of a stream that has broken off, its reader says: chats.py for
OpenAI's chats and completions, plain.py for protocols that no engine continues in the middle of an answer.
"""

from __future__ import annotations

import asyncio
import math
import os
import time
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, suppress
from typing import Any, Protocol

import aiohttp
import attempts
import loading
import protocols
import suspects
from attempts import EVENT, Broken, Failure, Nobody, Question, Refusal
from avoided import avoid
from door_answers import Said, broken_off
from events import Events
from loading import NotLoaded

#: Engines that one answer is tried on after the first.
RETRIES = 3
#: Seconds without a word after which a stream says that it lives. Proxies and clients of the field give up after 60.
ALIVE_S = float(os.environ.get("TANDEM_ALIVE_S", "15"))
#: By which an engine refuses a request: another one would as well.
_REFUSED = (400, 422)
_HEADERS = [(b"content-type", b"text/event-stream; charset=utf-8"), (b"cache-control", b"no-cache")]


class Reader(Protocol):
    """Reads one stream, whatever engines it comes from."""

    #: Whether the client has its last event.
    is_over: bool

    @property
    def sign(self) -> bytes:
        """What says now that a stream lives, and is no part of it."""

    @property
    def has_any(self) -> bool:
        """Whether the client has some of the answer."""

    def begin(self) -> bytes:
        """What the client may have of a beginning that is held, where nothing has come for long."""

    def take(self, events: bytes) -> Iterator[bytes]:
        """What the client gets of events that are whole. Raises Broken and Failure, behind what is well."""

    def refused(self, failure: Failure) -> bytes:
        """The end of a stream to which two engines have said the same instead of an answer."""

    async def rest(self, question: Question, engine: Any) -> Question | bytes:
        """What the next engine is asked, now that this one (the router's entry of it) has broken off; or the end, where
        only that is left. Raises Nobody.
        """


class Stream:
    """One stream to a client. Nothing is sent before there is something to say: until then it can be refused."""

    def __init__(self, question: Question, send: Any, reader: Reader) -> None:
        self.question, self.send, self.reader = question, send, reader
        #: Whether the client has headers; and whether an engine has begun to answer.
        self.has_begun = self.is_answered = False
        #: What an engine said that would not begin.
        self.refusal: Said | None = None
        #: The failure with which an engine began its stream.
        self.failure: bytes | None = None
        #: When the client had a word last.
        self._said = time.monotonic()
        #: When that is looked at next (a timer costs less than a task), and what says then that the stream lives.
        self._timer: asyncio.TimerHandle | None = None
        self._saying: asyncio.Task[None] | None = None

    async def run(self) -> Said | None:
        """The stream; or what the client is told instead of one. Raises Nobody where no engine begins one, and Refusal
        (attempts.py).
        """
        try:
            async with self._alive():
                await self._until_loaded()
                for _ in range(1 + RETRIES):
                    if await self._from_one():
                        return self.refusal
                raise Nobody
        except (Nobody, Refusal) as error:
            if not self.has_begun:
                raise
            status, body, _ = broken_off()
            if isinstance(error, attempts.Deadly | NotLoaded):
                status, body = error.status, error.body
        # The status is long sent: the end says that it is none.
        await self._pass_on(protocols.ended(self.question.path, status, body), False)
        return None

    async def _until_loaded(self) -> None:
        """A model on demand: meanwhile the client is told how far it is. Anthropic's have an event that may come first;
        OpenAI's reader of responses ends at any event before `response.created`, and skips comments (openai 2.54).
        """
        async for said in loading.until_loaded(self.question.model, self.question.path):
            await self._pass_on(self._before_any(f": {said}\n\n".encode()), True)

    def _before_any(self, comment: bytes) -> bytes:
        """A sign that may come before an answer has begun."""
        return self.reader.sign if self.reader.sign == protocols.PING else comment

    async def _from_one(self) -> bool:
        """What an engine gives; whether that is the end of the stream. Else `question` is for the rest of it."""
        async with attempts.answer(self.question) as (response, engine):
            try:
                if response.content_type != "text/event-stream":
                    return await self._no_stream(response)
                self.is_answered = True
                await self._events(response)
                return True
            except (*attempts.AWAY, Broken) as error:
                if isinstance(error, Failure) and await attempts.has_died(engine):
                    pass
                elif not isinstance(error, Failure) or self.reader.has_any:
                    await attempts.failed(engine, error)
                elif self.failure == error.event:
                    # A second engine says the same: it is the request's.
                    await self._pass_on(self.reader.refused(error), False)
                    return True
                else:
                    self.failure = error.event
                    avoid(engine)
        rest = await self.reader.rest(self.question, engine)
        if isinstance(rest, bytes):
            await self._pass_on(rest, False)
            return True
        self.question = rest
        return False

    async def _no_stream(self, response: aiohttp.ClientResponse) -> bool:
        """An engine refuses: before the first byte that is an answer like others."""
        body = await response.read()
        suspects.shows()
        if self.has_begun and not self.is_answered and 400 <= response.status < 500:
            # All that the client has is how far its load was.
            await self._pass_on(protocols.refused(self.question.path, response.status, body), False)
            return True
        if self.has_begun and response.status in _REFUSED:
            raise Nobody
        if self.has_begun:
            raise Broken(f"HTTP {response.status}")
        self.refusal = (response.status, body, attempts.told(response))
        return True

    async def _events(self, response: aiohttp.ClientResponse) -> None:
        """All of an engine's stream; raises Broken where it ends before its answer does."""
        events = Events()
        async for part in response.content.iter_any():
            if whole := events.take(part):
                await self._pass_events(whole)
                if self.reader.is_over:
                    return
            elif len(events) > EVENT:
                raise Broken(f"an event of more than {EVENT} bytes")
        raise Broken

    async def _pass_events(self, whole: bytes) -> None:
        passed: list[bytes] = []
        try:
            passed.extend(self.reader.take(whole))
        finally:
            if self.reader.has_any or self.reader.is_over:
                suspects.shows()
            # What came before an error is a part of the answer, and goes on with the rest of it.
            await self._pass_on(b"".join(passed), not self.reader.is_over)

    async def _pass_on(self, part: bytes, more: bool) -> None:
        if not part and more:
            return
        # A client that reads slowly needs no sign meanwhile, and one that has the end none at all.
        self._said = math.inf
        if not self.has_begun:
            self.has_begun = True
            await self.send({"type": "http.response.start", "status": 200, "headers": _HEADERS})
        await self.send({"type": "http.response.body", "body": part, "more_body": more})
        if more:
            self._said = time.monotonic()

    @asynccontextmanager
    async def _alive(self) -> AsyncIterator[None]:
        """Meanwhile a stream of which nothing comes says that it lives."""
        self._look(ALIVE_S)
        try:
            yield
        finally:
            assert self._timer
            self._timer.cancel()
            if self._saying:
                self._saying.cancel()
                with suppress(asyncio.CancelledError):
                    await self._saying

    def _look(self, after_s: float) -> None:
        self._timer = asyncio.get_running_loop().call_later(min(max(after_s, 0.01), ALIVE_S), self._say_so)

    async def _say(self) -> None:
        await self._pass_on((self.is_answered and self.reader.begin()) or self.reader.sign, True)

    def _say_so(self) -> None:
        """Where nothing has come for so long; an engine that has not begun may refuse yet, with a status. Who waits for
        its turn may wait for others' whole answers.
        """
        if time.monotonic() - self._said >= ALIVE_S:
            if self.is_answered or suspects.waits():
                self._saying = asyncio.ensure_future(self._say())
            self._said = time.monotonic()
        self._look(self._said + ALIVE_S - time.monotonic())
