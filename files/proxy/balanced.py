"""A callback of LiteLLM's: a request goes where the fewest are under way, a conversation where it is cached.

LiteLLM's own ways are dice (simple-shuffle) and a count that begins after the choice (least-busy: a burst goes to one
engine). Here a request is counted in the moment of the choice, and no more when its answer has been sent, has failed or
has lost its client: an object that belongs to the request, made around LiteLLM's application, says where it is.
"""

from __future__ import annotations

import hashlib
import json
import random
from collections import Counter, OrderedDict
from collections.abc import Awaitable, Callable, Iterator
from contextvars import ContextVar
from typing import Any

from litellm.integrations.custom_logger import CustomLogger
from litellm.proxy import proxy_server

#: Tokens of a prompt whose reading takes as long as one request more on an engine makes an answer of 128 tokens wait:
#: 1.7 to 2.1 s of decode and first token at 1 to 16 users, at 1,328 to 1,552 tokens a second ([A], solo).
A_REQUEST = 2500
#: Characters of a token, about.
CHARACTERS = 4
#: Beginnings of conversations that are remembered of each engine, the latest.
REMEMBERED = 4096


class Ticket:
    """Where a client's request is: the engine's id in LiteLLM; empty: nowhere yet."""

    def __init__(self) -> None:
        self.engine = ""


_ticket: ContextVar[Ticket | None] = ContextVar("tandem_ticket", default=None)


class Balanced(CustomLogger):
    """Asked for each try of each request, behind the filters that leave out engines that are away."""

    def __init__(self) -> None:
        self.under_way: Counter[str] = Counter()
        #: Engine -> beginnings of conversations that it has read, the latest last.
        self.has_read: dict[str, OrderedDict[bytes, None]] = {}

    async def async_filter_deployments(
        self,
        model: str,
        healthy_deployments: list[Any],
        messages: Any,
        request_kwargs: dict[str, Any] | None = None,
        parent_otel_span: Any = None,
    ) -> list[Any]:
        """One engine; none where there is none."""
        ticket = _ticket.get()
        if ticket:
            # Tried again: it is not where it was.
            self.release(ticket)
        engines = {str(engine["model_info"]["id"]): engine for engine in healthy_deployments}
        if not engines:
            return healthy_deployments
        # One that is away comes back with an empty cache.
        self.has_read = {name: read for name, read in self.has_read.items() if name in engines}
        beginnings = list(_beginnings(messages, (request_kwargs or {}).get("tools")))
        scores = {name: self._score(name, beginnings) for name in engines}
        chosen = random.choice([name for name in engines if scores[name] == max(scores.values())])
        if ticket:
            ticket.engine = chosen
            self.under_way[chosen] += 1
        self._remember(chosen, beginnings)
        return [engines[chosen]]

    def release(self, ticket: Ticket) -> None:
        """The request is not under way any more."""
        if ticket.engine:
            self.under_way[ticket.engine] -= 1
            ticket.engine = ""

    def _score(self, name: str, beginnings: list[tuple[bytes, int]]) -> float:
        """Tokens that need not be read there, less what the requests there cost."""
        read = self.has_read.get(name, OrderedDict())
        cached = max((length for beginning, length in beginnings if beginning in read), default=0)
        return cached / CHARACTERS - self.under_way[name] * A_REQUEST

    def _remember(self, name: str, beginnings: list[tuple[bytes, int]]) -> None:
        read = self.has_read.setdefault(name, OrderedDict())
        for beginning, _ in beginnings:
            read[beginning] = None
            read.move_to_end(beginning)
        while len(read) > REMEMBERED:
            read.popitem(last=False)


class WithTicket:
    """Around LiteLLM's application (ASGI): each request has a ticket, which ends with it, however it ends."""

    def __init__(self, application: Callable[..., Awaitable[None]]) -> None:
        self.application = application

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        ticket = Ticket()
        token = _ticket.set(ticket)
        try:
            await self.application(scope, receive, send)
        finally:
            callback.release(ticket)
            _ticket.reset(token)


def _beginnings(messages: Any, tools: Any) -> Iterator[tuple[bytes, int]]:
    """Each beginning of a conversation, of one message and more: its hash, and its length in characters."""
    so_far, length = hashlib.blake2b(json.dumps(tools, default=str).encode(), digest_size=16), 0
    for message in messages or ():
        text = json.dumps(message, sort_keys=True, default=str)
        so_far.update(text.encode())
        length += len(text)
        yield so_far.digest(), length


callback = Balanced()
# Callbacks are loaded while the application starts: too late for add_middleware.
proxy_server.app.middleware_stack = WithTicket(
    proxy_server.app.middleware_stack or proxy_server.app.build_middleware_stack()
)
