"""Streams of protocols that no engine continues in its middle: they pass as they are, from one engine.

One that breaks before the client has any of the answer begins anew on another. Behind that it ends with the protocol's
own error.
"""

from __future__ import annotations

from typing import Any

import attempts
import suspects
from attempts import EVENT, Broken, Failure, Nobody, Question
from avoided import avoid
from door_answers import AWAY, Said
from events import Events
from protocols import streams

#: Engines that one answer is tried on.
TRIES = 4
STREAMS = streams(AWAY)
#: By which each of these protocols says within a stream that something is wrong.
_ERROR = b"event: error\n"


async def run(question: Question, send: Any) -> Said | None:
    """The stream, or what the client is told instead of one; raises Nobody, and attempts.Refusal."""
    kind, has_text, failure = STREAMS[question.path], False, b""
    for _ in range(TRIES):
        async with attempts.answer(question) as (response, engine):
            if response.content_type != "text/event-stream":
                return response.status, await response.read(), []
            held, events = b"", Events()
            try:
                async for part in response.content.iter_any():
                    held += events.take(part)
                    if len(events) > EVENT:
                        raise Broken(f"an event of more than {EVENT} bytes")
                    if not has_text and _has(held, _ERROR):
                        raise Failure(held)
                    is_over = any(_has(held, each) for each in kind.ends)
                    if not has_text and (is_over or kind.text in held):
                        has_text = True
                        suspects.shows()
                        await _begin(send)
                    if has_text and held:
                        await send({"type": "http.response.body", "body": held, "more_body": not is_over})
                        held = b""
                    if is_over:
                        return None
                raise Broken
            except Failure as error:
                if await attempts.has_died(engine):
                    continue
                if failure == error.event:
                    # A second engine says the same: it is the request's.
                    await _begin(send)
                    await send({"type": "http.response.body", "body": failure})
                    return None
                failure = error.event
                avoid(engine)
            except (*attempts.AWAY, Broken) as error:
                await attempts.failed(engine, error)
        if has_text:
            await send({"type": "http.response.body", "body": kind.broken})
            return None
    raise Nobody


def _has(events: bytes, begin: bytes) -> bool:
    """Whether one of these events begins so: what stands in a text within them is escaped or behind `data:`."""
    return events.startswith(begin) or b"\n" + begin in events


async def _begin(send: Any) -> None:
    headers = [(b"content-type", b"text/event-stream; charset=utf-8"), (b"cache-control", b"no-cache")]
    await send({"type": "http.response.start", "status": 200, "headers": headers})


def is_one(question: Question) -> bool:
    """Whether this is asked for as such a stream."""
    return question.path in STREAMS and bool(question.asked.get("stream"))
