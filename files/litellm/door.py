"""Around LiteLLM's application (ASGI): who may ask, what, and how much; and a callback, for bodies that it reads.

LiteLLM keeps keys of clients in a database only, and sixty of its routes need none at all. So it is asked nothing
before the door knows whose key this is; then it gets the owner's, which is the only one that it knows. What its clients
can reach is listed here by method and path, and what it says of itself is the owner's. The door is the outermost layer
(application.py): it sees each request first and each byte last.
"""

from __future__ import annotations

import re
import time
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import door_answers
import door_log
from door_body import Body, limits, visiting
from door_counts import Counts
from door_keys import OWNER, Key, Keys
from door_limits import Visit
from door_size import Size
from door_usage import Answer
from protocols import ASKED, MODELS

#: Needs no key, and says nothing but that the event loop turns: the canary asks it.
LIVENESS = ("GET", "/health/liveliness")
#: What keys of clients are for.
ROUTES = {"POST": re.compile(ASKED), "GET": re.compile(MODELS)}
#: Methods that a log may name: any other is a client's own words.
METHODS = ("GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS", "websocket")
#: Headers in which LiteLLM looks for a key, the first that is there; others would be a second key in one request.
KEY_HEADERS = (
    b"x-litellm-api-key",
    b"authorization",
    b"api-key",
    b"x-api-key",
    b"x-goog-api-key",
    b"ocp-apim-subscription-key",
)
#: Headers of a client's that LiteLLM gets; others (x-litellm-...) tell it what to do.
PASSED = (b"host", b"content-type", b"content-length", b"transfer-encoding", b"accept", b"user-agent", b"origin")


#: Whoever has no key.
NOBODY = Key("nobody", "")


class Door:
    """Stands before LiteLLM's application."""

    def __init__(self, application: Any, owners: str, secrets: Path, used: Path) -> None:
        self.application = application
        self.keys, self.limits = Keys(secrets / "keys.json", owners), limits
        self.counts = Counts(used / "used.json", self.keys.ids)
        self._owners = owners.encode()

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        size = Size(scope, receive)
        send = size.before_its_end(send)
        if scope["type"] == "lifespan" or (scope.get("method"), scope["path"]) == LIVENESS or _is_preflight(scope):
            await self.application(scope, size, send)
            return
        began, method, served = time.monotonic(), scope.get("method", "websocket"), is_served(scope)
        secret = _secret(scope["headers"])
        visit = Visit(self.keys.find(secret) or NOBODY if secret else NOBODY)
        size.holder = visit.key.id
        try:
            refusal = self._refusal(visit.key, bool(secret), method, served, began)
            if refusal is None:
                await self._let_in(scope, size, send, visit, served)
            else:
                visit.status = await door_answers.say(scope, size, send, refusal)
        finally:
            size.release()
            # Nothing that a client has put into a path or a query: people put keys there, and others lines of a log.
            route = re.sub("(?s)/models/.*", "/models/...", scope["path"]) if served else "another route"
            took = f"{time.monotonic() - began:.2f} s, {visit.tokens} tokens, from {(scope.get('client') or ['?'])[0]}"
            known = method if method in METHODS else "another method"
            print(f"tandem: {visit.key.name}: {known} {route}: {visit.status or 'broken off'}, {took}")

    def _refusal(self, key: Key, has_one: bool, method: str, served: bool, now: float) -> door_answers.Said | None:
        """The answer to a request that may not pass, now or at all; None: it may."""
        if key is NOBODY:
            why = (
                "this is no key of this service" if has_one else "no key, or two: it goes into `Authorization: Bearer`"
            )
            return door_answers.unknown(why)
        if key.expires is not None and key.expires <= time.time():
            return door_answers.unknown(f"the key of `{key.name}` has expired: ask its owner for another")
        if not served and key.name != OWNER:
            return door_answers.nothing_there(method)
        refused = self.limits.refuse(key, now)
        return door_answers.too_much(refused) if refused else None

    async def _let_in(self, scope: Any, size: Size, send: Any, visit: Visit, served: bool) -> None:
        """The request, with the owner's key and without what is not for LiteLLM."""
        answer: Answer | None = None

        async def pass_on(message: Any) -> None:
            nonlocal answer
            if size.over and not visit.status:
                # What LiteLLM says to a client that it takes for gone.
                return
            if message["type"] == "http.response.start":
                visit.status = message["status"]
                if served and visit.status == 200:
                    answer = Answer(visit, scope["path"], dict(message["headers"]).get(b"content-type", b""))
            elif answer and message["type"] == "http.response.body":
                more = message.get("more_body", False)
                message["body"] = answer.pass_on(message.get("body", b""), more)
                self.limits.passes(visit, time.monotonic())
                if more and not message["body"]:
                    return
            await send(message)

        token = visiting.set(visit)
        try:
            with self.limits.under_way(visit) if served else nullcontext():
                await self.application(self._inner(scope, visit.key, served), size, pass_on)
            if size.over and not visit.status:
                visit.status = await door_answers.say(scope, size, send, size.over)
        except Exception as error:
            if visit.status:
                raise
            if not size.over:
                # LiteLLM looks for a package of its database's when it tells of a body that it does not take.
                print(f"tandem: LiteLLM has let an error of its own pass: {door_log.kinds(error)}")
            visit.status = await door_answers.say(scope, size, send, size.over or door_answers.failed())
        finally:
            visiting.reset(token)
            self.limits.spend(visit, time.monotonic())
            if served:
                self.counts.add(visit.key.id, visit.tokens)

    def _inner(self, scope: Any, key: Key, served: bool) -> Any:
        """The request as LiteLLM sees it. The door reads answers: they come to it as they are."""
        is_owner = key.name == OWNER
        left_out = {*KEY_HEADERS, *([b"accept-encoding"] if served else [])}
        kept = [(n, value) for n, value in scope["headers"] if n not in left_out and (is_owner or n in PASSED)]
        query = scope["query_string"] if is_owner else b""
        return {**scope, "headers": [*kept, (b"authorization", b"Bearer " + self._owners)], "query_string": query}


def is_served(scope: Any) -> bool:
    """Whether this is something that clients are there for."""
    routes = ROUTES.get(scope.get("method", ""))
    return routes is not None and routes.fullmatch(scope["path"]) is not None


def _is_preflight(scope: Any) -> bool:
    """A browser's question whether it may ask at all, which it sends without a key; LiteLLM's middleware answers it."""
    asked = dict(scope["headers"]).get(b"access-control-request-method", b"").decode(errors="replace")
    return (
        scope.get("method") == "OPTIONS"
        and b"origin" in dict(scope["headers"])
        and is_served({**scope, "method": asked})
    )


def _secret(headers: Any) -> bytes:
    """The key of a request; empty: it has none, or it is not clear which."""
    said = [(name, value) for name, value in headers if name in KEY_HEADERS]
    for wanted in KEY_HEADERS:
        values = [value.strip() for name, value in said if name == wanted]
        if len(values) > 1:
            return b""
        if values:
            kind, _, secret = values[0].rpartition(b" ")
            return bytes(secret) if kind.strip().lower() in (b"", b"bearer") else b""
    return b""


callback = Body()
