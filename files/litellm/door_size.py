"""How much the body of a request may have, seen as it arrives: LiteLLM reads it whole, and copies what it has read."""

from __future__ import annotations

import os
from typing import Any

import door_answers

#: Brackets and commas of a body: each is an object of Python's or more, which LiteLLM copies several times, one by one.
#: With twenty million of them (60 MiB) its event loop stood still for a minute and its pulse for 20 s, so the proxy
#: ended all of its streams. A million tokens of text have fewer, and pictures have none.
MOST_PIECES = 500_000


class Size:
    """Stands for `receive`: whoever reads is told that the client has gone when it is too much. `over`: it was."""

    def __init__(self, receive: Any) -> None:
        self._receive = receive
        self._most = int(os.environ.get("TANDEM_BODY_BYTES", "0"))
        self._bytes = self._pieces = 0
        self.over: door_answers.Said | None = None

    async def __call__(self) -> Any:
        message = {"type": "http.disconnect"} if self.over else await self._receive()
        if message["type"] != "http.request":
            return message
        body = message.get("body", b"")
        self._bytes += len(body)
        self._pieces += sum(body.count(each) for each in b"[{,")
        if self._most and self._bytes > self._most:
            self.over = door_answers.too_large("the body is larger than this service takes")
        elif self._pieces > MOST_PIECES:
            self.over = door_answers.too_large(f"the body has more than {MOST_PIECES} lists, objects and commas")
        return {"type": "http.disconnect"} if self.over else message
