"""Streams of protocols that no engine continues in its middle: they pass as they are, from one engine.

One that breaks before the client has any of the answer begins anew on another. Behind that it ends with the protocol's
own error. What a beginning says that is no answer yet is held until then. Where that takes long, a client gets the
events that say that its response is made: OpenAI's reader takes no other one before them (openai 3.54).
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from attempts import Failure, Nobody, Question
from protocols import COMMENT, PING, Stream

#: By which each of these protocols says within a stream that something is wrong.
_ERROR = b"event: error\n"


class Reader:
    """Reads one (streaming.py), of a protocol's `kind`."""

    def __init__(self, kind: Stream) -> None:
        self._kind = kind
        self.is_over = self.has_any = False
        #: Whether the client knows that its response is made.
        self._is_made = False
        #: What a beginning says that is no answer yet.
        self._held = b""

    @property
    def sign(self) -> bytes:
        """An event of the protocol's own only where its readers take one."""
        may_come = self._kind.sign == PING or self.has_any or self._is_made
        return self._kind.sign if may_come else COMMENT

    def begin(self) -> bytes:
        """What the client may have of a beginning that is held."""
        shown, self._held = _apart(self._held, self._kind.begins)
        self._is_made |= bool(shown)
        return shown

    def take(self, events: bytes) -> Iterator[bytes]:
        """All of them, as soon as the answer begins; raises Failure for an error before that."""
        if self._is_made and not self.has_any:
            # Of an engine that begins anew as well: it is made once.
            _, events = _apart(events, self._kind.begins)
        if not self.has_any and (at := _find(events, _ERROR)) >= 0:
            self._held += events[:at]
            raise Failure(events[at:])
        self.is_over = any(_find(events, each) >= 0 for each in self._kind.ends)
        self.has_any |= self.is_over or self._kind.text in events
        self._held += events
        if self.has_any:
            yield self._held
            self._held = b""

    def refused(self, failure: Failure) -> bytes:
        """The engine's own words."""
        return self._held + failure.event

    async def rest(self, question: Question, engine: Any) -> Question:
        """The same once more; raises Nobody where the client has some of the answer."""
        if self.has_any:
            raise Nobody
        self._held = b""
        return question


def _apart(events: bytes, begins: tuple[bytes, ...]) -> tuple[bytes, bytes]:
    """Whole events that begin so, and all others."""
    each = [event + b"\n\n" for event in events.split(b"\n\n") if event]
    ours = b"".join(event for event in each if begins and event.startswith(begins))
    return ours, b"".join(event for event in each if not begins or not event.startswith(begins))


def _find(events: bytes, begin: bytes) -> int:
    """Where one of these events begins so, or -1: what stands in a text within them is escaped or behind `data:`."""
    if events.startswith(begin):
        return 0
    at = events.find(b"\n\n" + begin)
    return at + 2 if at >= 0 else -1
