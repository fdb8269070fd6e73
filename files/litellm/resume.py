"""A callback of LiteLLM's: a stream whose engine dies goes on from another engine, and the client does not notice.

LiteLLM tries again while nothing has been sent. Behind the first token it gives up, and the client has half an answer.
Here the same request goes to another engine with what the client has already as the beginning of the answer, which
vLLM continues (`continue_final_message`). What can't be continued that way ends as LiteLLM ends it: several choices
at once, an answer that must fit a grammar, and half a tool call; a tool call is therefore held back until it is whole.
"""

from __future__ import annotations

import asyncio
import copy
import json
import urllib.request
from collections.abc import AsyncIterator
from typing import Any

from litellm.integrations.custom_logger import CustomLogger

#: What a request may call the number of tokens that it wants at most.
LIMITS = ("max_tokens", "max_completion_tokens")
#: Seconds for an engine to count the tokens of a text.
COUNT_S = 5
#: Engines that one answer is tried on after the first.
RETRIES = 3


class Answer:
    """What the client has of an answer."""

    def __init__(self) -> None:
        self.id = ""
        self.text = ""
        #: Chunks of thoughts: as many tokens, or a few more where the engine put some together.
        self.thoughts = 0
        self.finished = False
        #: Chunks with a tool call that is not whole yet.
        self.held: list[Any] = []
        #: The last chunk with a choice.
        self.last: Any = None
        #: Tokens that came from engines that are gone.
        self.tokens_before = 0

    def pass_on(self, chunk: Any, continued: bool) -> list[Any]:
        """The chunks that the client gets now."""
        self.id = chunk.id = self.id or chunk.id
        if usage := getattr(chunk, "usage", None):
            # Of a continued answer the engine counts the beginning as a part of the question.
            usage.completion_tokens += self.tokens_before
            usage.prompt_tokens -= self.tokens_before
        if not chunk.choices or not hasattr(chunk.choices[0], "delta"):
            # What it cost, or a piece of /v1/completions, which nobody continues.
            return [chunk]
        choice = chunk.choices[0]
        delta = choice.delta
        if continued and self.text:
            # A parser of reasoning may take the middle of an answer for thoughts.
            delta.content = (getattr(delta, "reasoning_content", None) or "") + (delta.content or "")
            delta.reasoning_content, delta.role = None, None
        self.thoughts += bool(getattr(delta, "reasoning_content", None))
        self.text += delta.content or ""
        self.last = chunk
        self.finished = self.finished or bool(choice.finish_reason)
        if getattr(delta, "tool_calls", None) and not self.finished:
            self.held.append(chunk)
            return []
        released, self.held = [*self.held, chunk], []
        return released

    def ended(self) -> Any:
        """A last chunk for an answer that has all its tokens."""
        chunk = copy.deepcopy(self.last)
        choice = chunk.choices[0]
        choice.delta.content, choice.delta.role, choice.finish_reason = "", None, "length"
        return chunk

    def broke_off(self, tokens: int) -> None:
        """The engine is gone; what was held back is not the client's. `tokens`: of the text."""
        self.held = []
        self.tokens_before = tokens + self.thoughts


class Resume(CustomLogger):
    """Wraps every stream of the proxy."""

    async def async_post_call_streaming_iterator_hook(
        self, user_api_key_dict: Any, response: Any, request_data: dict[str, Any]
    ) -> AsyncIterator[Any]:
        """The stream, from as many engines as it takes."""
        answer, tries = Answer(), 0
        while True:
            try:
                async for chunk in response:
                    for ready in answer.pass_on(chunk, continued=tries > 0):
                        yield ready
                        request_data["tandem_has_begun"] = True
                return
            except Exception as error:
                answer.broke_off(await _tokens(answer.text, request_data))
                body = _rest(request_data, answer)
                if body and answer.last and _used_up(body):
                    # Only the word that it is the end has not come.
                    yield answer.ended()
                    return
                if answer.finished or body is None or tries >= RETRIES:
                    raise
                tries += 1
                why = type(error).__name__
                print(f"tandem: an engine broke off after {answer.tokens_before} tokens ({why}): resumed")
                response = await _again(body)


def _rest(request_data: dict[str, Any], answer: Answer) -> dict[str, Any] | None:
    """The request for what the client has not; None where an answer can't be continued."""
    body = dict((request_data.get("proxy_server_request") or {}).get("body") or {})
    if "messages" not in body or (body.get("n") or 1) > 1:
        return None
    if not answer.text:
        # Thoughts alone: they begin anew, and the answer behind them is whole.
        return body
    if (body.get("response_format") or {}).get("type", "text") != "text" or "structured_outputs" in body:
        return None
    messages = [dict(message) for message in body["messages"]]
    if body.get("continue_final_message"):
        messages[-1]["content"] += answer.text
    else:
        messages.append({"role": "assistant", "content": answer.text})
    body |= {"messages": messages, "continue_final_message": True, "add_generation_prompt": False}
    for limit in LIMITS:
        if body.get(limit):
            body[limit] = int(body[limit]) - answer.tokens_before
    return body


def _used_up(body: dict[str, Any]) -> bool:
    return any(isinstance(body.get(limit), int) and body[limit] <= 0 for limit in LIMITS)


async def _tokens(text: str, request_data: dict[str, Any]) -> int:
    """How many tokens a text has, as an engine counts them; where none says, about four characters each."""
    from litellm.proxy.proxy_server import llm_router

    model = str(request_data.get("model"))
    question = {"model": model, "prompt": text, "add_special_tokens": False}
    for engine in (llm_router.get_model_list(model_name=model) or []) if text else []:  # type: ignore[union-attr]
        url = str(engine["litellm_params"]["api_base"]).removesuffix("/v1") + "/tokenize"
        try:
            return await asyncio.to_thread(_count, url, question)
        except (OSError, ValueError, KeyError, TypeError):
            continue
    return len(text) // 4


def _count(url: str, question: dict[str, Any]) -> int:
    request = urllib.request.Request(url, json.dumps(question).encode(), {"Content-Type": "application/json"})
    with urllib.request.urlopen(request, timeout=COUNT_S) as response:
        return int(json.load(response)["count"])


async def _again(body: dict[str, Any]) -> Any:
    from litellm.proxy.proxy_server import llm_router

    return await llm_router.acompletion(**body)  # type: ignore[union-attr]


callback = Resume()
