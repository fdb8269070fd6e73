"""What an answer costs, read from its bytes while it passes: whatever way it took through LiteLLM."""

from __future__ import annotations

import json
from typing import Any

from door_limits import Visit
from events import Events

#: Where an answer says what it has cost: the last time that the word comes. Quotes within a text are escaped, so no
#: text can hold it. A ranking may say it by the other word.
_SAID, _RANKED = b'"usage":', b'"billed_units":'
#: The last event of a response's stream. Those before repeat objects of its client's: its tools.
_RESPONDED = tuple(b"event: response." + each + b"\n" for each in (b"completed", b"incomplete", b"failed"))
_BEGINS = b"event: message_start\n"
_decode = json.JSONDecoder().raw_decode


class Answer:
    """One answer: `pass_on` each part, and send what it gives."""

    def __init__(self, visit: Visit, path: str, content_type: bytes) -> None:
        self._visit = visit
        self._words = (_SAID, _RANKED) if path.endswith("/rerank") else (_SAID,)
        self._is_response = path.endswith("/responses")
        #: Tokens of question and answer: Anthropic's streams say them one after the other.
        self._asked = self._answered = 0
        self._is_stream = content_type.startswith(b"text/event-stream")
        self._events = Events()
        #: The end of an answer that is not streamed.
        self._tail = b""

    def pass_on(self, part: bytes, more: bool) -> bytes:
        """What the client gets of this part. Events of a stream go on whole."""
        if not self._is_stream:
            # LiteLLM sends an answer at once; in several parts only the last one has what it has cost.
            self._tail = (self._tail if self._is_response else self._tail[-4096:]) + part
            if not more:
                self._read(self._tail)
            return part
        if part.endswith(b"\n\n") and not self._events and _SAID not in part:
            self._visit.pieces += part.count(b"data: {")
            return part
        whole = self._events.take(part).split(b"\n\n")[:-1]
        passed = b"".join(event + b"\n\n" for event in whole if self._goes_on(event))
        return passed if more else passed + self._events.rest()

    def _goes_on(self, event: bytes) -> bool:
        """Whether the client gets this event."""
        self._visit.pieces += event.startswith(b"data: {") or b"\ndata: {" in event
        return not self._read(event) or not self._visit.hides_usage or _says_more(event)

    def _read(self, text: bytes) -> bool:
        """Whether it says what the answer has cost."""
        if self._is_response:
            return self._read_response(text)
        for name in self._words:
            at = text.rfind(name)
            if at < 0:
                continue
            try:
                said, _ = _decode(text[at + len(name) :].lstrip().decode(errors="replace"))
            except ValueError:
                continue
            if self._tell(said, begins=text.startswith(_BEGINS)):
                return True
        return False

    def _read_response(self, text: bytes) -> bool:
        """A response repeats objects of its client's, which may have any word in them: it is read whole."""
        if self._is_stream and not text.startswith(_RESPONDED):
            return False
        try:
            said = json.loads(text.partition(b"data:")[2] if self._is_stream else text)
            return self._tell((said["response"] if self._is_stream else said)["usage"])
        except (ValueError, KeyError, TypeError):
            return False

    def _tell(self, said: Any, *, begins: bool = False) -> bool:
        """Tokens as they are known by now; whether it is a usage. Sounds are counted in something else: seconds."""
        if not isinstance(said, dict):
            return False
        self._asked = max(self._asked, _number(said, "prompt_tokens", "input_tokens"))
        self._answered = max(self._answered, _number(said, "completion_tokens", "output_tokens"))
        total = _number(said, "total_tokens") or self._asked + self._answered
        if begins:
            # Anthropic's first event has the question alone: what follows counts by its pieces until the last one.
            self._visit.asked = max(self._visit.asked, self._asked)
        elif total:
            self._visit.told = total
        return total > 0


def _number(said: dict[str, Any], *names: str) -> int:
    """The first of these that is a number of tokens."""
    found = (said.get(name) for name in names)
    return next((each for each in found if isinstance(each, int) and not isinstance(each, bool) and each > 0), 0)


def _says_more(event: bytes) -> bool:
    """Whether an event has anything beside what the answer has cost; LiteLLM gives it a choice that is empty."""
    try:
        choices = json.loads(event.removeprefix(b"data:"))["choices"]
        return any(each.get("finish_reason") or each.get("text") or each.get("delta") for each in choices)
    except (ValueError, KeyError, TypeError, AttributeError):
        return True
