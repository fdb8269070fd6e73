"""A callback of LiteLLM's: while no engine can answer, clients are told so, and when to come back.

LiteLLM says 429 or 500 then, which clients take for a limit of theirs or for a mistake; 503 with Retry-After is what
the OpenAI clients wait for by themselves. An error before the first token of a stream takes another way through LiteLLM
than all others: it keeps what the error itself says of a status, and no headers.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

import comes_back
from door_answers import AWAY
from fastapi import HTTPException
from litellm.integrations.custom_logger import CustomLogger
from litellm.proxy import proxy_server
from litellm.types.router import RouterRateLimitError, RouterRateLimitErrorBasic

#: Errors of LiteLLM's that say that an engine is away, and not that a request is wrong.
ERRORS = ("APIConnectionError", "InternalServerError", "ServiceUnavailableError", "BadGatewayError", "Timeout")


class Unavailable(CustomLogger):
    """Asked before an error goes to a client."""

    async def async_post_call_failure_hook(
        self,
        request_data: dict[str, Any],
        original_exception: Exception,
        user_api_key_dict: Any,
        traceback_str: str | None = None,
    ) -> HTTPException | None:
        """The error that the client gets; None: LiteLLM's own."""
        no_engine = isinstance(original_exception, RouterRateLimitError | RouterRateLimitErrorBasic)
        if not no_engine and type(original_exception).__name__ not in ERRORS:
            return None
        error: Any = original_exception
        error.status_code, error.message = 503, AWAY
        return HTTPException(503, AWAY)


class WithRetryAfter:
    """Around LiteLLM's application (ASGI): whoever is told 503 is told when to come back."""

    def __init__(self, application: Callable[..., Awaitable[None]]) -> None:
        self.application = application

    async def __call__(self, scope: Any, receive: Any, send: Callable[[Any], Awaitable[None]]) -> None:
        async def pass_on(message: Any) -> None:
            if message["type"] == "http.response.start" and message["status"] == 503:
                names = {name.lower() for name, _ in message["headers"]}
                after = (
                    []
                    if b"retry-after" in names
                    else [(b"retry-after", str(comes_back.after_s(proxy_server.llm_router)).encode())]
                )
                message["headers"] = [*message["headers"], *after]
            await send(message)

        await self.application(scope, receive, pass_on)


callback = Unavailable()
