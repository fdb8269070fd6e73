"""What LiteLLM asks before each request to an engine, with the body that it has read: see door.py."""

from __future__ import annotations

from contextvars import ContextVar
from typing import Any

from door_keys import OWNER
from door_limits import Visit
from fastapi import HTTPException
from litellm.integrations.custom_logger import CustomLogger
from litellm.proxy import proxy_server

#: Words of a body that send a request elsewhere than to this model's engines, or again and again.
ELSEWHERE = (
    *("api_key", "custom_llm_provider", "deployment_id", "specific_deployment", "router_settings_override"),
    *("fallbacks", "context_window_fallbacks", "content_policy_fallbacks", "num_retries", "max_retries"),
    *("model_group_retry_policy", "routing_strategy", "enable_tag_filtering"),
    # An engine that is given a moment fails, is asked again, and nobody counts what it has read meanwhile.
    *("timeout", "stream_timeout", "request_timeout"),
)
#: Where LiteLLM remembers that the client did not ask what a stream costs.
_KEEPS = "_litellm_strip_stream_usage"
#: Characters of a token, about.
CHARACTERS = 4

#: The request that the door has let in.
visiting: ContextVar[Visit | None] = ContextVar("tandem_visit", default=None)


class Body(CustomLogger):
    """A callback of LiteLLM's."""

    async def async_pre_call_hook(self, user_api_key_dict: Any, cache: Any, data: Any, call_type: Any) -> Any:
        """The body; engines say what a stream has cost only when they are asked to."""
        visit = visiting.get()
        if visit is None:
            return data
        if visit.key.name != OWNER:
            _check(data)
        visit.asked = sum(map(len, _texts(data))) // CHARACTERS
        options = data.get("stream_options") or {}
        if data.get("stream") and isinstance(options, dict):
            # Of a chat LiteLLM asks by itself, and keeps what it hears; here the door hears it, and keeps it.
            visit.hides_usage = not options.get("include_usage")
            if data.get(_KEEPS):
                visit.hides_usage, data[_KEEPS] = True, False
            # What resume.py continues a stream with is the body as it came.
            bodies = (data, (data.get("proxy_server_request") or {}).get("body"))
            for body in (each for each in bodies if isinstance(each, dict)):
                body["stream_options"] = {**options, "include_usage": True}
        return data


def _check(data: Any) -> None:
    """Raises HTTPException: a client's key is for the models of this service alone, as it serves them."""
    if found := [word for word in ELSEWHERE if word in data]:
        raise HTTPException(400, f"`{found[0]}` in a request's body is not for keys of clients")
    router, model = proxy_server.llm_router, data.get("model")
    if model is not None and router is not None and model not in router.model_names:
        raise HTTPException(404, "there is no such model here; `GET /v1/models` lists them")


def _texts(data: Any) -> list[str]:
    """What is to be read; no images."""
    found: list[str] = []
    rest = [data.get(name) for name in ("messages", "prompt", "input", "query", "documents")]
    while rest:
        part = rest.pop()
        if isinstance(part, str):
            found.append(part)
        elif isinstance(part, list):
            rest += part
        elif isinstance(part, dict):
            rest += [part.get(name) for name in ("content", "text")]
    return found
