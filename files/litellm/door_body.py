"""What the door wants to know of a request's body, before an engine gets it: see door.py."""

from __future__ import annotations

from contextvars import ContextVar
from typing import Any

from door_keys import OWNER
from door_limits import Limits, Refused, Visit
from fastapi import HTTPException
from litellm.integrations.custom_logger import CustomLogger
from litellm.proxy import proxy_server
from media import Found, find

#: Words of a body that send a request elsewhere than to this model's engines, or again and again.
ELSEWHERE = (
    *(
        "api_key",
        "api_base",
        "base_url",
        "user_config",
        "model_list",
        "custom_llm_provider",
        "deployment_id",
        "specific_deployment",
        "router_settings_override",
    ),
    *("fallbacks", "context_window_fallbacks", "content_policy_fallbacks", "num_retries", "max_retries"),
    *("model_group_retry_policy", "routing_strategy", "enable_tag_filtering"),
    # An engine that is given a moment fails, is asked again, and nobody counts what it has read meanwhile.
    *("timeout", "stream_timeout", "request_timeout"),
)
#: Characters of a token, about.
CHARACTERS = 4
#: Tokens of a picture or a sound: at least these, and one more for so many bytes of its data. Engines read 250 to 1,500
#: tokens for a picture.
MEDIA, BYTES = 1_000, 2_000

#: What all keys use: the door's.
limits = Limits()
#: The request that the door has let in.
visiting: ContextVar[Visit | None] = ContextVar("tandem_visit", default=None)


class Body(CustomLogger):
    """A callback of LiteLLM's."""

    async def async_pre_call_hook(self, user_api_key_dict: Any, cache: Any, data: Any, call_type: Any) -> Any:
        """The body of a request that goes LiteLLM's way, as it is."""
        visit = visiting.get()
        if visit is not None and visit.key.name != OWNER:
            _check(data)
        if visit is not None:
            # LiteLLM has added words of its own to the body.
            length = sum(len(str(data[name])) for name in ("messages", "prompt", "input") if name in data)
            visit.asked, visit.was_asked = _tokens(length, find(data)), True
        return data


def admit(asked: dict[str, Any], streams: bool, answers: int) -> Refused | str | None:
    """The body of a request that goes straight to an engine (passthrough.py), which says what a stream has cost only
    when it is asked to. `answers`: how many it asks for. Why it may not have them: now, or ever, in words.
    """
    visit = visiting.get()
    if visit is None:
        return None
    if visit.key.requests is not None and answers > visit.key.requests:
        most = f"and `{visit.key.name}` may have {visit.key.requests} requests at once"
        return f"this asks for {answers} answers (`n` for each prompt), {most}: ask for fewer"
    if refused := limits.weigh(visit, answers):
        return refused
    options = asked.get("stream_options") or {}
    if streams and isinstance(options, dict):
        visit.hides_usage = not options.get("include_usage")
        asked["stream_options"] = {**options, "include_usage": True}
    return None


def weigh(length: int, found: Found, sound: int = 0) -> None:
    """The question as it goes to an engine: bytes of its body, what is to be read of it, and bytes of its sound."""
    if (visit := visiting.get()) is not None:
        visit.asked = _tokens(length, found, sound)


def has_asked() -> None:
    """An engine has the question of this request from now on."""
    if (visit := visiting.get()) is not None:
        visit.was_asked = True


def goes_elsewhere(asked: Any) -> str:
    """The first word of a body that is about more than this model's engines; empty: none is."""
    return next((word for word in ELSEWHERE if word in asked), "")


def not_for_clients(asked: Any) -> str:
    """Why a body is not for the key of this request: a client's is for what this service serves, as it serves it."""
    visit = visiting.get()
    if visit is None or visit.key.name == OWNER:
        return ""
    if word := goes_elsewhere(asked):
        return f"`{word}` in a request's body is not for keys of clients"
    # vLLM takes an echo of a chat for that by itself, and false for 0, which asks for those of the question as well.
    told = [name for name in ("messages", "logprobs", "top_logprobs") if asked.get(name) is not None]
    if asked.get("prompt_logprobs") is not None or (asked.get("echo") and told):
        why = "an engine can end for memory over all words of its vocabulary for each token of a question"
        return f"`prompt_logprobs`, and `echo` in a chat or with `logprobs`, are not for keys of clients: {why}"
    return ""


def _check(data: Any) -> None:
    """Raises HTTPException: a client's key is for the models of this service alone."""
    if why := not_for_clients(data):
        raise HTTPException(400, why)
    router, model = proxy_server.llm_router, data.get("model")
    if model is not None and router is not None and model not in router.model_names:
        raise HTTPException(404, "there is no such model here; `GET /v1/models` lists them")


def _tokens(length: int, found: Found, sound: int = 0) -> int:
    """Tokens of a question, about. `length`: of its body in bytes, all of which an engine may read: tools, what they
    were told and have said, thoughts. Only pictures and sounds cost something else.
    """
    media = [sound] if sound else [len(each.data) for each in found.media]
    text = max(length - sum(media), 0) // CHARACTERS
    return max(text, found.numbers) + sum(MEDIA + each // BYTES for each in media)
