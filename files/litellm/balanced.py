"""A callback of LiteLLM's: a request goes where the fewest are under way, a conversation where it is cached.

LiteLLM's own ways are dice (simple-shuffle) and a count that begins after the choice (least-busy: a burst goes to one
engine). Here a request is counted in the moment of the choice, and no more when its answer has been sent, has failed or
has lost its client: an object that belongs to the request, made around LiteLLM's application, says where it is.
An engine is known by its address: each adapter has a name in LiteLLM on it, and all of them share what it can. What the
node's other LiteLLM has under way counts, and what it has had an engine read is cached there as well (shared.py).
"""

from __future__ import annotations

import asyncio
import hashlib
import json
import random
from collections import Counter, OrderedDict
from collections.abc import Awaitable, Callable, Collection, Iterator
from contextvars import ContextVar
from functools import partial
from typing import Any

import avoided
import shared
from litellm.integrations.custom_logger import CustomLogger
from protocols import SIGNS

#: Parts of a stream of which an engine has said nothing.
_NO_ANSWER = (b"", *SIGNS)
#: Tokens of a prompt whose reading takes as long as one request more on an engine makes an answer of 128 tokens wait:
#: 1.7 to 2.1 s of decode and first token at 1 to 16 users, at 1,328 to 1,552 tokens a second ([A], solo).
A_REQUEST = 2500
#: Characters of a token, about.
CHARACTERS = 4
#: Tokens of a part of a message that is no text (a picture): its length as base64 says nothing.
A_PICTURE = 1000
#: Beginnings of conversations that are remembered of each engine, the latest: about 250 bytes each.
REMEMBERED = 16_384
#: Beginnings that are looked at of one conversation: the first are shared with others, the last with its own last turn.
FIRST, LAST = 8, 64
#: Messages from which on they are read beside the loop.
MANY = 256
#: Paths that ask an engine to count, and not to read.
_COUNTED = ("/tokenize", "/count_tokens", "/detokenize")

#: What a message has that is a text alone.
_PLAIN = {"role", "content"}
_json = json.JSONEncoder(sort_keys=True, default=str).encode

#: The hash of a conversation's first messages, and their tokens.
Beginning = tuple[bytes, int]


class Ticket:
    """Where a client's request is."""

    def __init__(self) -> None:
        #: The engine that it counts on; empty: none.
        self.engine = ""
        #: Those that it was sent to and came back from.
        self.tried: set[str] = set()
        #: What `engine` has read when it answers.
        self.reads: list[Beginning] = []
        #: What staying there has cost its conversation, in tokens.
        self.cost = 0
        #: The client has its answer, or is gone: nothing is counted any more, whatever LiteLLM still does.
        self.over = False


_ticket: ContextVar[Ticket | None] = ContextVar("tandem_ticket", default=None)


class Balanced(CustomLogger):
    """Asked for each try of each request, behind the filters that leave out engines that are away."""

    def __init__(self) -> None:
        self.under_way: Counter[str] = Counter()
        #: Engine -> beginning that it has read, the latest last -> what staying with it has cost so far, in tokens.
        self.has_read: dict[str, OrderedDict[bytes, int]] = {}
        #: Model -> its engines, as they were when it was asked last.
        self.of: dict[str, set[str]] = {}
        #: Engine -> how often it was away: with each, what others know of its cache is forgotten as well.
        self.lives: Counter[str] = Counter()

    async def async_filter_deployments(
        self,
        model: str,
        healthy_deployments: list[Any],
        messages: Any,
        request_kwargs: dict[str, Any] | None = None,
        parent_otel_span: Any = None,
    ) -> list[Any]:
        """One engine; none where there is none."""
        ticket = _ticket.get() or Ticket()
        begin = partial(_reads, model, messages, (request_kwargs or {}).get("tools"))
        is_long = isinstance(messages, list) and len(messages) > MANY
        reads = await asyncio.to_thread(begin) if is_long else begin()
        if ticket.engine:
            # Tried again: it is not where it was, and what failed is a bad choice, however little it has to do.
            # LiteLLM's own cooldown may begin later than the next try.
            ticket.tried.add(ticket.engine)
            self.release(ticket)
        engines = {str(engine["litellm_params"]["api_base"]): engine for engine in healthy_deployments}
        if not engines:
            return healthy_deployments
        # One that only this request avoids is there.
        self._forget(model, engines.keys() | (avoided.addresses.get() & self.of.get(model, set())))
        if ticket.tried >= engines.keys():
            ticket.tried.clear()
        ticket.reads = reads
        chosen = self._choose([name for name in engines if name not in ticket.tried], ticket)
        if _ticket.get() and not ticket.over:
            ticket.engine = chosen
            self._count(chosen, 1)
        return [engines[chosen]]

    def _forget(self, model: str, there: Collection[str]) -> None:
        """One that is away comes back with an empty cache. Engines of other models are not missed here."""
        for name in self.of.get(model, set()) - set(there):
            self.has_read.pop(name, None)
            self.lives[name] += 1
            shared.counts.set(f"lives {name}", self.lives[name])
        self.of[model] = set(there)

    def release(self, ticket: Ticket) -> None:
        """The request is not under way any more."""
        if ticket.engine:
            self._count(ticket.engine, -1)
            ticket.engine = ""

    def answers(self, ticket: Ticket) -> None:
        """The first of its answer is there: its engine has read it. Sooner, a burst that begins alike would wait for
        one engine to read it while the other, which would be as soon, has nothing to do.
        """
        if not ticket.reads or not ticket.engine:
            return
        read = self.has_read.setdefault(ticket.engine, OrderedDict())
        for beginning, _ in ticket.reads:
            self._remember(ticket.engine, beginning, read.get(beginning, ticket.cost))
            read.move_to_end(beginning)
        while len(read) > REMEMBERED:
            read.popitem(last=False)
        ticket.reads = []

    def _choose(self, names: list[str], ticket: Ticket) -> str:
        """Where the fewest are under way, or where it is cached, as long as all that waiting there has cost its
        beginning stays below the one time that reading it anew costs. So what many share is soon read by all.
        """
        found = {name: self._longest(name, ticket.reads) for name in names}
        cached = {name: beginning[1] for name, beginning in found.items()}
        busy = {name: self.under_way[name] + shared.counts.others(name) for name in names}
        calm = max(names, key=lambda name: (-busy[name], cached[name], random.random()))
        best = max(names, key=lambda name: (cached[name] - busy[name] * A_REQUEST, -busy[name], random.random()))
        ticket.cost = 0
        if busy[best] == busy[calm]:
            return best
        key = found[best][0]
        cost = (self._cost(best, key) or 0) + (busy[best] - busy[calm]) * A_REQUEST
        if cost > cached[best] - cached[calm]:
            return calm
        ticket.cost = cost
        self._remember(best, key, cost)
        return best

    def _longest(self, name: str, beginnings: list[Beginning]) -> Beginning:
        """The longest beginning that the engine has read."""
        life = self._life(name)
        return next((each for each in reversed(beginnings) if self._cost(name, each[0], life) is not None), (b"", 0))

    def _cost(self, name: str, beginning: bytes, life: bytes = b"") -> int | None:
        """What it has cost to stay at an engine with this beginning; None: it has not read it. `life`: by `_life`."""
        read = self.has_read.get(name)
        known = read.get(beginning) if read else None
        return shared.marks.get(life or self._life(name), beginning) if known is None else known

    def _remember(self, name: str, beginning: bytes, cost: int) -> None:
        """An engine has read it; staying there has cost so much."""
        self.has_read.setdefault(name, OrderedDict())[beginning] = cost
        shared.marks.put(cost, self._life(name), beginning)

    def _life(self, name: str) -> bytes:
        """An engine, from one time that it was away to the next."""
        word = f"lives {name}"
        return f"{name} {self.lives[name] + shared.counts.others(word)}".encode()

    def _count(self, name: str, more: int) -> None:
        self.under_way[name] += more
        shared.counts.set(name, self.under_way[name])


class WithTicket:
    """Around LiteLLM's application (ASGI): each request has a ticket, which ends with it, however it ends."""

    def __init__(self, application: Callable[..., Awaitable[None]]) -> None:
        self.application = application

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        ticket, well = Ticket(), False
        is_counted = scope.get("path", "").endswith(_COUNTED)

        async def pass_on(message: Any) -> None:
            nonlocal well
            if message["type"] == "http.response.start":
                well = message["status"] < 400
            elif message["type"] == "http.response.body":
                body = message.get("body", b"")
                if well and not is_counted and body not in _NO_ANSWER:
                    callback.answers(ticket)
                if not message.get("more_body") or body.rstrip().endswith(b"data: [DONE]"):
                    # Before the client has it: its next turn must not meet its last.
                    callback.release(ticket)
            await send(message)

        token = _ticket.set(ticket)
        try:
            await self.application(scope, receive, pass_on)
        finally:
            ticket.over = True
            callback.release(ticket)
            _ticket.reset(token)


def _reads(model: str, messages: Any, tools: Any) -> list[Beginning]:
    """The beginnings by which a conversation is known."""
    found = list(_beginnings(model, messages, tools))
    return found if len(found) <= FIRST + LAST else [*found[:FIRST], *found[-LAST:]]


def _beginnings(model: str, messages: Any, tools: Any) -> Iterator[Beginning]:
    """Each beginning of a conversation, of one message and more; an adapter reads for itself alone."""
    if not isinstance(messages, list):
        return
    so_far, tokens = hashlib.blake2b(digest_size=16), 0
    try:
        so_far.update(_json([model, tools]).encode())
        for message in messages:
            text = _written(message)
            so_far.update(text.encode())
            tokens += _tokens(message, text)
            yield so_far.digest(), tokens
    except (TypeError, ValueError, RecursionError):
        # What can't be written down (too deep) is the engine's to refuse, and no beginning of anything.
        return


def _written(message: Any) -> str:
    """A message as text, to be hashed. A role and a text are joined: to write a long one as JSON takes as long as to
    choose an engine.
    """
    if isinstance(message, dict) and message.keys() == _PLAIN and isinstance(text := message["content"], str):
        return f"{message['role']} {text}"
    return _json(message)


def _tokens(message: Any, text: str) -> int:
    """About how many tokens a message has, for which `text` stands."""
    parts = message.get("content") if isinstance(message, dict) else None
    if not isinstance(parts, list):
        return len(text) // CHARACTERS
    texts = [part.get("text") for part in parts if isinstance(part, dict)]
    return sum(len(each) // CHARACTERS if isinstance(each, str) else A_PICTURE for each in texts) or len(text) // 4


callback = Balanced()
