"""What an answer costs, read from its bytes while it passes: whatever way it took through LiteLLM."""

from __future__ import annotations

import json
from typing import Any

from door_limits import Visit
from events import Events

#: Names under which an answer says what it has cost. Quotes within a text are escaped: no text can hold one of them.
_SAID = (b'"usage":', b'"billed_units":')
_decode = json.JSONDecoder().raw_decode


class Answer:
    """One answer: `pass_on` each part, and send what it gives."""

    def __init__(self, visit: Visit, content_type: bytes) -> None:
        self._visit = visit
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
            self._tail = self._tail[-4096:] + part
            if not more:
                self._read(self._tail)
            return part
        if part.endswith(b"\n\n") and not self._events and _SAID[0] not in part and _SAID[1] not in part:
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
        for name in _SAID:
            at = text.rfind(name)
            if at < 0:
                continue
            try:
                said, _ = _decode(text[at + len(name) :].lstrip().decode(errors="replace"))
                self._visit.told = self._total(said)
            except (ValueError, TypeError, AttributeError):
                continue
            return True
        return False

    def _total(self, said: Any) -> int:
        """Tokens as they are known by now; raises TypeError or AttributeError where it is no usage."""
        self._asked = max(self._asked, said.get("prompt_tokens") or said.get("input_tokens") or 0)
        self._answered = max(self._answered, said.get("completion_tokens") or said.get("output_tokens") or 0)
        total = int(said.get("total_tokens") or self._asked + self._answered)
        if not total:
            raise TypeError("it is counted in something else: seconds of a sound")
        return total


def _says_more(event: bytes) -> bool:
    """Whether an event has anything beside what the answer has cost; LiteLLM gives it a choice that is empty."""
    try:
        choices = json.loads(event.removeprefix(b"data:"))["choices"]
        return any(each.get("finish_reason") or each.get("text") or each.get("delta") for each in choices)
    except (ValueError, KeyError, TypeError, AttributeError):
        return True
