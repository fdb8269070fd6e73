"""How much the body of a request may have, and how long it may take, seen as it arrives: LiteLLM reads it whole, and
copies what it has read.
"""

from __future__ import annotations

import asyncio
import os
import time
from collections import Counter
from contextlib import suppress
from typing import Any

import door_answers
from protocols import FORMS

#: Brackets and commas of a body: each is an object of Python's or more, which LiteLLM copies several times, one by one.
#: With twenty million of them (60 MiB) its event loop stood still for a minute and its pulse for 20 s, so the proxy
#: ended all of its streams. A million tokens of text have fewer, and pictures have none. A name in an object is a text
#: of its own: 500,000 of them were 0.2 s of the loop, where as many numbers were 0.02. So a name counts for more.
MOST_PIECES, NAME = 500_000, 3
#: The end of a name, with a space or without; within a text quotes are escaped, unless that is what is escaped.
_NAMES = (b'":', b'\\\\":', b" :", b"\t:", b"\n:", b"\r:")
_NO_NAME = b'\\":'
#: HAProxy waits for as much of a body as its buffer holds, and passes on what is behind that whenever it comes. So each
#: further part of this size has the seconds here that the first one has there, and a body has so many times as long.
PART, PARTS = 512 << 10, 10
#: Seconds for which more of a body is read, and dropped, that has its answer already.
DROPPED_S = 5.0
#: Bytes of bodies that a process holds at once, each until its answer has ended, and those of one key. LiteLLM has
#: 4 GiB, and a body is there up to seven times: its parts, its objects (a text with one rare letter four times as
#: large), what is sent on. A list or a comma counts for PIECE bytes more. What is SMALL always comes in: as many of
#: them as there are places have room beside that.
HELD, HELD_EACH, PIECE, SMALL = 384 << 20, 192 << 20, 16, 1 << 20
#: By key.
_held = Counter[str]()
_GONE = {"type": "http.disconnect"}
_CLOSE = (b"connection", b"close")
#: What says that a request has a body.
_LENGTHS = (b"content-length", b"transfer-encoding")


class Size:
    """Stands for `receive`: whoever reads is told that the client has gone when it is too much, or too slow. `over`:
    what it was.
    """

    def __init__(self, scope: Any, receive: Any) -> None:
        self._receive = receive
        lengths = [value for name, value in scope.get("headers", ()) if name in _LENGTHS]
        #: Nothing more of it comes.
        self.is_whole = scope["type"] != "http" or set(lengths) <= {b"0"}
        self._most = int(os.environ.get("TANDEM_BODY_BYTES", "0"))
        self._bytes = self._pieces = 0
        #: Parts that are not looked through: all of them together are too short to have too many pieces.
        self._short = list[bytes]()
        #: The last byte that has come: a name may end in two parts.
        self._end = b""
        #: Sounds are no JSON: it is not made objects of.
        self._is_form = scope["type"] == "http" and scope["path"].endswith(FORMS)
        self._part_s = float(os.environ.get("TANDEM_REQUEST_S", "30"))
        began = time.monotonic()
        #: When the part that is under way has to be there, and when the whole body.
        self._part_until, self._until = began + self._part_s, began + PARTS * self._part_s
        self._parts = 1
        self.over: door_answers.Said | None = None
        #: Whose request it is, by the key's `id`; empty: nobody's that has a body.
        self.holder = ""
        #: What it counts for among all that are held.
        self._weight = 0

    async def __call__(self) -> Any:
        message: Any = _GONE if self.over else await self._next()
        if message["type"] != "http.request":
            return message
        body: bytes = message.get("body", b"")
        self._bytes += len(body)
        self.is_whole = not message.get("more_body", False)
        if not self._is_form:
            self._count(body)
        if self._bytes >= self._parts * PART:
            self._parts, self._part_until = self._bytes // PART + 1, time.monotonic() + self._part_s
        if self._most and self._bytes > self._most:
            self.over = door_answers.too_large("the body is larger than this service takes")
        elif self._pieces > MOST_PIECES:
            self.over = door_answers.too_large(f"the body has more than {MOST_PIECES} lists, objects, names and commas")
        elif not self._has_room():
            self.over = door_answers.no_room()
        return _GONE if self.over else message

    def _has_room(self) -> bool:
        if not self.holder:
            return True
        weight = self._bytes + PIECE * self._pieces
        _held[self.holder] += weight - self._weight
        self._weight = weight
        return weight <= SMALL or (_held[self.holder] <= HELD_EACH and _held.total() <= HELD)

    def release(self) -> None:
        """Its answer has ended."""
        _held[self.holder] -= self._weight
        self._weight = 0
        if not _held[self.holder]:
            del _held[self.holder]

    def _count(self, body: bytes) -> None:
        # What ends a name has two bytes or more. Most bodies are short, and looking through one costs as much as all
        # else that the door does with it.
        self._short.append(body)
        if self._bytes * NAME > MOST_PIECES * 2:
            for part in self._short:
                self._pieces += sum(part.count(each) for each in (b"[", b"{", b",")) + NAME * self._names(part)
            self._short.clear()
        elif self.is_whole:
            self._short.clear()

    def _names(self, body: bytes) -> int:
        """How many names of objects end in this part of a body, about."""
        text, self._end = self._end + body, body[-1:]
        return sum(text.count(each) for each in _NAMES) - text.count(_NO_NAME)

    async def _next(self) -> Any:
        """A part of the body; behind its end it says whether the client is still there, however long that takes."""
        left = min(self._part_until, self._until) - time.monotonic()
        try:
            async with asyncio.timeout(None if self.is_whole else left):
                return await self._receive()
        except TimeoutError:
            self.over = door_answers.too_slow()
            return _GONE

    def before_its_end(self, send: Any) -> Any:
        """Stands for `send`: who answers before all of a body is there ends the connection behind its answer. Else the
        rest would be read for as long as it comes, by drops for ever, and be under way for HAProxy, without a key.
        """

        async def pass_on(message: Any) -> None:
            if not self.is_whole and message["type"] == "http.response.start":
                message = {**message, "headers": [*message["headers"], _CLOSE]}
            elif not self.is_whole and not message.get("more_body"):
                # An end with something unread takes along what the client has not seen of its answer.
                await send({**message, "more_body": True})
                await self._drop()
                message = {"type": "http.response.body", "body": b""}
            await send(message)

        return pass_on

    async def _drop(self) -> None:
        with suppress(TimeoutError):
            async with asyncio.timeout(min(DROPPED_S, self._part_s)):
                while (message := await self._receive())["type"] == "http.request" and message.get("more_body"):
                    pass
