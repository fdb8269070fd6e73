"""Streams of OpenAI's chats and completions: they go on from another engine (resume.py)."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import attempts
import orjson
from attempts import Broken, Failure, Nobody, Question, an_object
from protocols import COMMENT
from resume import Answer, choices, used_up

_DONE = b"data: [DONE]\n\n"
#: Why an answer has ended, as an engine says that is stopped; within an answer's own text quotes are escaped.
ABORTED = "abort"
#: What stands in events that are looked at for that, or for an error.
_ABORTED, _ERROR = ABORTED.encode(), b"error"


class Reader:
    """Reads one (streaming.py)."""

    sign = COMMENT

    def __init__(self, question: Question) -> None:
        self.answer, self.asked = Answer(choices(question.path, question.asked)), question.asked
        self.is_over = self.continued = False

    @property
    def has_any(self) -> bool:
        """Whether the client has text, or thoughts."""
        return bool(self.answer.pieces or self.answer.thoughts)

    def begin(self) -> bytes:
        """Nothing is held that a client would miss."""
        return b""

    def take(self, events: bytes) -> Iterator[bytes]:
        """Each event as it came; what is held back, when its time has come. Raises Broken at an engine's error."""
        for event in events.removesuffix(b"\n\n").split(b"\n\n"):
            if event == b"data: [DONE]":
                # A beam may end without a word why.
                if not self.answer.is_whole and not self.asked.get("use_beam_search"):
                    raise Broken("it ended before its answer")
                self.is_over = True
                yield from map(_event, self.answer.held)
                yield _DONE
                return
            yield from self._chunks(event)

    def _chunks(self, event: bytes) -> list[bytes]:
        """What the client gets of an event now."""
        chunk = an_object(event.removeprefix(b"data: ")) if event.startswith(b"data: ") else None
        if chunk is None:
            return [event + b"\n\n"]
        if _ABORTED in event and _is_aborted(chunk):
            raise Broken("it is stopped")
        if _ERROR in event and _is_failure(chunk):
            raise Failure(event)
        given = self.answer.pass_on(chunk, self.continued)
        if not self.continued and len(given) == 1 and given[0] is chunk:
            return [event + b"\n\n"]
        return [*map(_event, given)]

    def refused(self, failure: Failure) -> bytes:
        """The engine's own words."""
        return failure.event + b"\n\n" + _DONE

    async def rest(self, question: Question, engine: Any) -> Question | bytes:
        """The same with the text that the client has, or anew; raises Nobody where neither can be."""
        self.continued = True
        self.answer.broke_off(await self._tokens(question))
        print(f"tandem: an engine broke off after {self.answer.tokens_before} tokens")
        if self.answer.is_whole:
            return _DONE
        body = self.answer.rest(self.asked, engine["model_info"].get("continues"))
        if body is None:
            raise Nobody
        if self.answer.last and used_up(body):
            return _event(self.answer.ended()) + _DONE
        return Question(question.path, body)

    async def _tokens(self, question: Question) -> int | None:
        """Counts tokens of the text that the client has; None where it can't be continued or no engine counts."""
        may_go_on = "messages" in self.asked and self.answer.choices == 1
        return await attempts.tokens(self.answer.text, question.model) if may_go_on else None


def _event(chunk: dict[str, Any]) -> bytes:
    text: bytes = orjson.dumps(chunk)
    return b"data: " + text + b"\n\n"


def _is_aborted(chunk: dict[str, Any]) -> bool:
    """Whether an engine is stopped (a reboot, a renewal): it ends answers as if they were whole, with a word for it."""
    return any(each.get("finish_reason") == ABORTED for each in chunk.get("choices") or () if isinstance(each, dict))


def _is_failure(chunk: dict[str, Any]) -> bool:
    """Whether an engine says in a stream that it can't go on; what it holds against the request is the client's."""
    said = chunk.get("error")
    code = said.get("code") if isinstance(said, dict) else None
    return "choices" not in chunk and said is not None and not (isinstance(code, int) and 400 <= code < 500)
