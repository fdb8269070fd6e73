"""A callback of LiteLLM's for tests: GET /under-way says how many requests `balanced` counts on each engine."""

from __future__ import annotations

import json
from typing import Any

import litellm
from litellm.integrations.custom_logger import CustomLogger
from litellm.proxy import proxy_server


class Probe:
    """Around LiteLLM's application (ASGI)."""

    def __init__(self, application: Any) -> None:
        self.application = application

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        if scope.get("path") != "/under-way":
            await self.application(scope, receive, send)
            return
        counts = next(each.under_way for each in litellm.callbacks if hasattr(each, "under_way"))
        head = [(b"content-type", b"application/json")]
        await send({"type": "http.response.start", "status": 200, "headers": head})
        await send({"type": "http.response.body", "body": json.dumps(counts).encode()})


# It is loaded while the application starts: too late for add_middleware.
proxy_server.app.middleware_stack = Probe(proxy_server.app.middleware_stack)
callback = CustomLogger()
