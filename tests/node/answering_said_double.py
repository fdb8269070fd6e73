"""What the double of an engine with a model behind it says, in the forms of both protocols, whole and as a stream."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

Json = dict[str, Any]
_ENDS = {"stop": "end_turn", "length": "max_tokens", "tool_calls": "tool_use"}


@dataclass(frozen=True)
class Written:
    """An answer behind all parsers."""

    thought: str
    content: str
    calls: list[tuple[str, str]]
    finish: str
    tokens: int


def _tool_calls(written: Written) -> list[Json]:
    return [
        {
            "index": number,
            "id": f"call-{number}",
            "type": "function",
            "function": {"name": name, "arguments": arguments},
        }
        for number, (name, arguments) in enumerate(written.calls)
    ]


def _usage(prompt: int, written: Written) -> Json:
    return {"prompt_tokens": prompt, "completion_tokens": written.tokens, "total_tokens": prompt + written.tokens}


def chat(written: Written, asked: Json, prompt: int) -> Json:
    """/v1/chat/completions."""
    said = {"role": "assistant", "content": written.content, "reasoning": written.thought}
    tokens = [{"token": each, "logprob": -0.5, "top_logprobs": [{}, {}, {}]} for each in written.content.split()]
    logprobs = {"content": tokens} if asked.get("logprobs") else None
    choice = {"index": 0, "message": {**said, "tool_calls": _tool_calls(written)}, "logprobs": logprobs}
    return {"choices": [{**choice, "finish_reason": written.finish}], "usage": _usage(prompt, written)}


def chat_stream(written: Written, asked: Json, prompt: int) -> Iterator[str]:
    """The same, in pieces that cut words."""
    deltas: list[Json] = [{"role": "assistant", "content": ""}]
    for field, text in (("reasoning", written.thought), ("content", written.content)):
        deltas += [{field: text[at : at + 3]} for at in range(0, len(text), 3)]
    for each in _tool_calls(written):
        function = each["function"]
        deltas.append({"tool_calls": [{**each, "function": {"name": function["name"], "arguments": ""}}]})
        arguments = function["arguments"]
        deltas += [
            {"tool_calls": [{"index": each["index"], "function": {"arguments": arguments[at : at + 4]}}]}
            for at in range(0, len(arguments), 4)
        ]
    for delta in deltas:
        yield json.dumps({"choices": [{"index": 0, "delta": delta, "finish_reason": None}]})
    yield json.dumps({"choices": [{"index": 0, "delta": {}, "finish_reason": written.finish}]})
    if asked.get("stream_options"):
        yield json.dumps({"choices": [], "usage": _usage(prompt, written)})
    yield "[DONE]"


def _blocks(written: Written) -> list[Json]:
    thought = [{"type": "thinking", "thinking": written.thought, "signature": ""}] if written.thought else []
    text = [{"type": "text", "text": written.content}] if written.content else []
    calls = [
        {"type": "tool_use", "id": f"call-{number}", "name": name, "input": json.loads(arguments)}
        for number, (name, arguments) in enumerate(written.calls)
    ]
    return [*thought, *text, *calls]


def message(written: Written, asked: Json, prompt: int) -> Json:
    """/v1/messages."""
    usage = {"input_tokens": prompt, "output_tokens": written.tokens}
    said = {"type": "message", "role": "assistant", "content": _blocks(written), "usage": usage}
    return {**said, "stop_reason": _ENDS[written.finish]}


def message_stream(written: Written, asked: Json, prompt: int) -> Iterator[str]:
    """Its events."""
    begun = {"type": "message", "role": "assistant", "content": [], "usage": {"input_tokens": prompt}}
    yield json.dumps({"type": "message_start", "message": begun})
    for index, block in enumerate(_blocks(written)):
        field = {"text": "text", "thinking": "thinking", "tool_use": "input"}[block["type"]]
        whole = json.dumps(block[field]) if field == "input" else block[field]
        empty = {**block, field: {} if field == "input" else ""}
        yield json.dumps({"type": "content_block_start", "index": index, "content_block": empty})
        kind, part = ("input_json_delta", "partial_json") if field == "input" else (f"{field}_delta", field)
        for at in range(0, len(whole), 5):
            delta = {"type": kind, part: whole[at : at + 5]}
            yield json.dumps({"type": "content_block_delta", "index": index, "delta": delta})
        yield json.dumps({"type": "content_block_stop", "index": index})
    ended = {"stop_reason": _ENDS[written.finish]}
    yield json.dumps({"type": "message_delta", "delta": ended, "usage": {"output_tokens": written.tokens}})
    yield json.dumps({"type": "message_stop"})
