"""A double of files/litellm/passthrough.py: LiteLLM answers everything by itself."""

from __future__ import annotations

from typing import Any


class Passthrough:
    """A layer that does nothing."""

    def __init__(self, application: Any) -> None:
        self.application = application

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        await self.application(scope, receive, send)
