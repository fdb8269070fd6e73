"""What the engine's double says in each protocol: an answer's text or a tool call, whole and as a stream, in the form
that vLLM 0.32 has for it.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

#: Tokens of every question, as this engine counts them.
PROMPT = 1000
MODEL = "double"


@dataclass(frozen=True)
class Turn:
    """`pieces` of text, or of the arguments of the tool `name`."""

    pieces: list[str]
    name: str = ""

    @property
    def text(self) -> str:
        """All of them."""
        return "".join(self.pieces)

    @property
    def tokens(self) -> int:
        """A piece is one."""
        return len(self.pieces)


def _sse(said: dict[str, Any]) -> str:
    return f"event: {said['type']}\ndata: {json.dumps(said)}\n\n"


def chat(turn: Turn) -> dict[str, Any]:
    """/v1/chat/completions."""
    message: dict[str, Any] = {"role": "assistant", "content": turn.text}
    if turn.name:
        function = {"name": turn.name, "arguments": turn.text}
        message = {"role": "assistant", "content": None}
        message["tool_calls"] = [{"id": "chatcmpl-tool-1", "type": "function", "function": function}]
    choice = {"index": 0, "message": message, "logprobs": None, "finish_reason": "tool_calls" if turn.name else "stop"}
    head = {"id": "chatcmpl-1", "object": "chat.completion", "created": 1, "model": MODEL}
    return {**head, "choices": [choice], "usage": _usage(turn)}


def chat_stream(turn: Turn, asked: dict[str, Any]) -> Iterator[str]:
    """The same in chunks."""
    head = {"id": "chatcmpl-1", "object": "chat.completion.chunk", "created": 1, "model": MODEL}

    def chunk(delta: dict[str, Any], reason: str | None = None) -> str:
        choice = {"index": 0, "delta": delta, "logprobs": None, "finish_reason": reason}
        return f"data: {json.dumps({**head, 'choices': [choice]})}\n\n"

    yield chunk({"role": "assistant", "content": ""})
    if turn.name:
        function = {"name": turn.name, "arguments": ""}
        yield chunk({"tool_calls": [{"index": 0, "id": "chatcmpl-tool-1", "type": "function", "function": function}]})
    for piece in turn.pieces:
        yield chunk(
            {"tool_calls": [{"index": 0, "function": {"arguments": piece}}]} if turn.name else {"content": piece}
        )
    yield chunk({}, "tool_calls" if turn.name else "stop")
    if (asked.get("stream_options") or {}).get("include_usage"):
        yield f"data: {json.dumps({**head, 'choices': [], 'usage': _usage(turn)})}\n\n"
    yield "data: [DONE]\n\n"


def completion(turn: Turn) -> dict[str, Any]:
    """/v1/completions."""
    choice = {"index": 0, "text": turn.text, "logprobs": None, "finish_reason": "stop"}
    head = {"id": "cmpl-1", "object": "text_completion", "created": 1, "model": MODEL}
    return {**head, "choices": [choice], "usage": _usage(turn)}


def completion_stream(turn: Turn, asked: dict[str, Any]) -> Iterator[str]:
    """The same in chunks."""
    head = {"id": "cmpl-1", "object": "text_completion", "created": 1, "model": MODEL}
    for number, piece in enumerate(turn.pieces):
        reason = "stop" if number == len(turn.pieces) - 1 else None
        choice = {"index": 0, "text": piece, "logprobs": None, "finish_reason": reason}
        yield f"data: {json.dumps({**head, 'choices': [choice]})}\n\n"
    if (asked.get("stream_options") or {}).get("include_usage"):
        yield f"data: {json.dumps({**head, 'choices': [], 'usage': _usage(turn)})}\n\n"
    yield "data: [DONE]\n\n"


def _usage(turn: Turn) -> dict[str, int]:
    return {"prompt_tokens": PROMPT, "total_tokens": PROMPT + turn.tokens, "completion_tokens": turn.tokens}


def message(turn: Turn) -> dict[str, Any]:
    """/v1/messages."""
    block: dict[str, Any] = {"type": "text", "text": turn.text}
    if turn.name:
        block = {"type": "tool_use", "id": "chatcmpl-tool-1", "name": turn.name, "input": json.loads(turn.text)}
    reason, usage = "tool_use" if turn.name else "end_turn", {"input_tokens": PROMPT, "output_tokens": turn.tokens}
    head = {"id": "chatcmpl-1", "type": "message", "role": "assistant", "model": MODEL}
    return {**head, "content": [block], "stop_reason": reason, "usage": usage}


def message_stream(turn: Turn, asked: dict[str, Any]) -> Iterator[str]:
    """The same in events."""
    begun: dict[str, Any] = {"id": "chatcmpl-1", "type": "message", "role": "assistant", "content": [], "model": MODEL}
    begun |= {"stop_reason": None, "stop_sequence": None, "usage": {"input_tokens": PROMPT, "output_tokens": 0}}
    yield _sse({"type": "message_start", "message": begun})
    block: dict[str, Any] = {"type": "text", "text": ""}
    if turn.name:
        block = {"type": "tool_use", "id": "chatcmpl-tool-1", "name": turn.name, "input": {}}
    yield _sse({"index": 0, "type": "content_block_start", "content_block": block})
    for piece in turn.pieces:
        delta = (
            {"type": "input_json_delta", "partial_json": piece} if turn.name else {"type": "text_delta", "text": piece}
        )
        yield _sse({"index": 0, "type": "content_block_delta", "delta": delta})
    yield _sse({"index": 0, "type": "content_block_stop"})
    reason = "tool_use" if turn.name else "end_turn"
    usage = {"input_tokens": PROMPT, "output_tokens": turn.tokens}
    yield _sse({"type": "message_delta", "delta": {"stop_reason": reason, "stop_sequence": None}, "usage": usage})
    yield _sse({"type": "message_stop"})


def _item(turn: Turn) -> dict[str, Any]:
    """Of a response's output."""
    if turn.name:
        call = {"type": "function_call", "id": "fc_1", "call_id": "call_1", "name": turn.name}
        return {**call, "arguments": turn.text, "status": "completed"}
    part = {"type": "output_text", "text": turn.text, "annotations": [], "logprobs": []}
    return {"type": "message", "id": "msg_1", "role": "assistant", "content": [part], "status": "completed"}


def response(turn: Turn) -> dict[str, Any]:
    """/v1/responses."""
    usage: dict[str, Any] = {"input_tokens": PROMPT, "output_tokens": turn.tokens}
    usage |= {"input_tokens_details": {"cached_tokens": 0}, "output_tokens_details": {"reasoning_tokens": 0}}
    usage["total_tokens"] = PROMPT + turn.tokens
    head = {"id": "resp_1", "object": "response", "created_at": 1, "model": MODEL, "status": "completed"}
    more = {"parallel_tool_calls": True, "tool_choice": "auto", "tools": [], "error": None, "incomplete_details": None}
    return {**head, **more, "instructions": None, "metadata": None, "output": [_item(turn)], "usage": usage}


def response_stream(turn: Turn, asked: dict[str, Any]) -> Iterator[str]:
    """The same in events."""
    number = 0

    def event(kind: str, **more: Any) -> str:
        nonlocal number
        number += 1
        return _sse({"type": f"response.{kind}", "sequence_number": number - 1, **more})

    whole, item = response(turn), _item(turn)
    begun = {**whole, "status": "in_progress", "output": [], "usage": None}
    place = {"output_index": 0, "item_id": item["id"]}
    yield event("created", response=begun)
    yield event("in_progress", response=begun)
    if turn.name:
        yield event("output_item.added", output_index=0, item={**item, "arguments": "", "status": "in_progress"})
        for piece in turn.pieces:
            yield event("function_call_arguments.delta", delta=piece, **place)
        yield event("function_call_arguments.done", arguments=turn.text, name=turn.name, **place)
    else:
        yield event("output_item.added", output_index=0, item={**item, "content": [], "status": "in_progress"})
        empty = {"type": "output_text", "text": "", "annotations": [], "logprobs": []}
        yield event("content_part.added", content_index=0, part=empty, **place)
        for piece in turn.pieces:
            yield event("output_text.delta", content_index=0, delta=piece, logprobs=[], **place)
        yield event("output_text.done", content_index=0, text=turn.text, logprobs=[], **place)
        yield event("content_part.done", content_index=0, part=item["content"][0], **place)
    yield event("output_item.done", output_index=0, item=item)
    yield event("completed", response=whole)


#: By path: an answer as a whole, and its stream.
PROTOCOLS: dict[str, tuple[Callable[[Turn], dict[str, Any]], Callable[[Turn, dict[str, Any]], Iterator[str]]]] = {
    "/v1/chat/completions": (chat, chat_stream),
    "/v1/completions": (completion, completion_stream),
    "/v1/messages": (message, message_stream),
    "/v1/responses": (response, response_stream),
}
