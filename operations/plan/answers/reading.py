"""Reading answers: of either protocol, whole or streamed, into one form. What breaks the protocol is wrong."""

from __future__ import annotations

import json
import re
from dataclasses import dataclass, replace
from typing import Any

from operations.wire import Json
from operations.wire.answers import Answered

#: Signs of templates, thoughts and calls, none of which belongs into an answer.
TAGS = re.compile(
    r"</?think(?:ing)?>|\[/?THINK\]|<\|[a-z_]+\|>|<\uff5c[^\uff5c]{1,40}\uff5c>|</?tool_(?:call|response)s?>|<function=|<parameter="
    r"|\[TOOL_CALLS\]|\[/?INST\]|<</?SYS>>|<(?:start|end)_of_turn>|</?s>|<\w+:tool_call>"
)
#: With what the thoughts begin that a parser leaves in an answer.
_OPENS = "<think>"
#: Characters of an answer that are quoted.
_QUOTED = 60


class Wrong(Exception):
    """A check does not hold; the text says why."""


class Undecided(Exception):
    """What came back says nothing about it; the text says why."""


@dataclass(frozen=True)
class Call:
    """A tool call: its arguments as they came, as text."""

    name: str
    arguments: str


@dataclass(frozen=True)
class Said:
    """One answer. `finish`: why it ended, in its protocol's word; tokens: 0 where it does not say; `logprobs`: each
    token's entry; `ids`: of tool calls.
    """

    content: str = ""
    thought: str = ""
    calls: tuple[Call, ...] = ()
    finish: str = ""
    prompt_tokens: int = 0
    answer_tokens: int = 0
    logprobs: tuple[Json, ...] = ()
    ids: tuple[str, ...] = ()

    @property
    def text(self) -> str:
        """Thoughts and answer, as they were generated."""
        return self.thought + self.content

    @property
    def is_cut(self) -> bool:
        """Whether it ended because it had no more room."""
        return self.finish in ("length", "max_tokens")


def taken_out(said: Said) -> Said:
    """An answer that begins with its thoughts, where its parser leaves them there: both apart."""
    if not said.content.lstrip().startswith(_OPENS):
        return said
    thought, end, content = said.content.lstrip().removeprefix(_OPENS).partition("</think>")
    if not end and not said.is_cut:
        # It has not thought; the tag is the parser's own.
        thought, content = "", thought
    return replace(said, thought=said.thought + thought, content=content.lstrip())


def need(holds: object, why: str) -> None:
    """Raises Wrong unless it holds."""
    if not holds:
        raise Wrong(why)


def quoted(text: str) -> str:
    """The beginning of a text, on one line."""
    return repr(text[:_QUOTED] + ("..." if len(text) > _QUOTED else ""))


def whole(answered: Answered) -> Json:
    """The body of an answer that is not streamed. Raises Wrong for an error and what is no object."""
    _good(answered)
    body = answered.get("body")
    need(isinstance(body, dict), "its answer is no JSON object")
    assert body is not None
    return body


def chat(answered: Answered) -> Said:
    """An answer of /v1/chat/completions. Raises Wrong where it is not in OpenAI's form."""
    try:
        return _chat_stream(answered) if "events" in answered else _chat(whole(answered))
    except (KeyError, IndexError, TypeError, AttributeError) as error:
        raise Wrong(f"its answer is not in OpenAI's form ({type(error).__name__}: {error})") from None


def message(answered: Answered) -> Said:
    """An answer of /v1/messages. Raises Wrong where it is not in Anthropic's form, Undecided without such a path."""
    if answered.get("status") in (404, 405, 501):
        raise Undecided("the engine has no such path")
    try:
        return _message_stream(answered) if "events" in answered else _message(whole(answered))
    except (KeyError, IndexError, TypeError, AttributeError) as error:
        raise Wrong(f"its answer is not in Anthropic's form ({type(error).__name__}: {error})") from None


def has_failed(answered: Answered) -> bool:
    """Whether the engine broke at it, or was away. With 501 it says that it can't do so."""
    status = answered.get("status", 0)
    return status >= 500 and status != 501


def words(answered: Answered) -> str:
    """An error: its status and its text, on one line."""
    status, text = answered.get("status", 0), " ".join(answered.get("text", "").split())[:200]
    return f"HTTP {status}: {text}" if status else f"no answer: {text}"


def _good(answered: Answered) -> None:
    status = answered.get("status", 0)
    # Asked again it may be another: a limit, an engine that is away.
    if status in (0, 408, 429) or status >= 500:
        raise Undecided(words(answered))
    need(status == 200, words(answered))


def _usage(said: Json, prompt: str, answer: str) -> tuple[int, int]:
    """Tokens of the prompt, and of the answer; 0: it does not say."""
    usage = said.get("usage") or {}
    return int(usage.get(prompt) or 0), int(usage.get(answer) or 0)


def _chat(body: Json) -> Said:
    choice = body["choices"][0]
    said = choice["message"]
    calls = said.get("tool_calls") or []
    return Said(
        said.get("content") or "",
        said.get("reasoning_content") or said.get("reasoning") or "",
        tuple(Call(each["function"]["name"], each["function"]["arguments"]) for each in calls),
        choice["finish_reason"] or "",
        *_usage(body, "prompt_tokens", "completion_tokens"),
        logprobs=tuple((choice.get("logprobs") or {}).get("content") or ()),
        ids=tuple(str(each.get("id") or "") for each in calls),
    )


def _chat_stream(answered: Answered) -> Said:
    _good(answered)
    content, thought, finishes = "", "", list[str]()
    calls: dict[int, dict[str, str]] = {}
    usage = (0, 0)
    for event in answered["events"]:
        need("error" not in event, f"an error stands in the stream: {quoted(json.dumps(event.get('error')))}")
        if event.get("usage"):
            usage = _usage(event, "prompt_tokens", "completion_tokens")
        for choice in event.get("choices") or []:
            delta = choice.get("delta") or {}
            content += delta.get("content") or ""
            thought += delta.get("reasoning_content") or delta.get("reasoning") or ""
            for part in delta.get("tool_calls") or []:
                call = calls.setdefault(part["index"], {"name": "", "arguments": "", "id": ""})
                function = part.get("function") or {}
                call["name"] += function.get("name") or ""
                call["arguments"] += function.get("arguments") or ""
                call["id"] += part.get("id") or ""
            if choice.get("finish_reason"):
                finishes.append(choice["finish_reason"])
    need(answered.get("ended"), "the stream ended without its end ([DONE])")
    need(len(finishes) == 1, f"the stream says {len(finishes)} times why it ends, expected once")
    found = [calls[index] for index in sorted(calls)]
    made = tuple(Call(each["name"], each["arguments"]) for each in found)
    return Said(content, thought, made, finishes[0], *usage, ids=tuple(each["id"] for each in found))


def _message(body: Json) -> Said:
    need(body["type"] == "message" and body["role"] == "assistant", "it is no message of the assistant's")
    return _of_blocks(body["content"], body["stop_reason"] or "", _usage(body, "input_tokens", "output_tokens"))


def _of_blocks(blocks: list[Json], finish: str, usage: tuple[int, int]) -> Said:
    by_kind: dict[str, list[Json]] = {}
    for each in blocks:
        by_kind.setdefault(each["type"], []).append(each)
    calls = by_kind.get("tool_use", [])
    return Said(
        "".join(each["text"] for each in by_kind.get("text", [])),
        "".join(each["thinking"] for each in by_kind.get("thinking", [])),
        tuple(Call(each["name"], json.dumps(each["input"])) for each in calls),
        finish,
        *usage,
        ids=tuple(str(each.get("id") or "") for each in calls),
    )


#: Of a block's deltas: where their text stands, and in which field of the block it is put together.
_DELTAS = {"text_delta": ("text", "text"), "thinking_delta": ("thinking", "thinking")}


def _message_stream(answered: Answered) -> Said:
    _good(answered)
    blocks: dict[int, dict[str, Any]] = {}
    parts: dict[int, str] = {}
    finish, usage, kinds = "", (0, 0), list[str]()
    for event in answered["events"]:
        kinds.append(event["type"])
        need(event["type"] != "error", f"an error stands in the stream: {quoted(json.dumps(event.get('error')))}")
        if event["type"] == "message_start":
            usage = _usage(event["message"], "input_tokens", "output_tokens")
        elif event["type"] == "content_block_start":
            need(event["index"] not in blocks, "two blocks of a stream have one index")
            blocks[event["index"]] = dict(event["content_block"])
        elif event["type"] == "content_block_delta":
            delta, block = event["delta"], blocks[event["index"]]
            if delta["type"] == "input_json_delta":
                parts[event["index"]] = parts.get(event["index"], "") + delta["partial_json"]
            elif delta["type"] in _DELTAS:
                source, field = _DELTAS[delta["type"]]
                block[field] = block.get(field, "") + delta[source]
        elif event["type"] == "message_delta":
            finish = event["delta"].get("stop_reason") or ""
            late = _usage(event, "input_tokens", "output_tokens")
            usage = (late[0] or usage[0], late[1] or usage[1])
    need(kinds[:1] == ["message_start"], "the stream does not begin with message_start")
    need(kinds[-1:] == ["message_stop"], "the stream does not end with message_stop")
    opened, closed = kinds.count("content_block_start"), kinds.count("content_block_stop")
    need(opened == closed, f"{opened} blocks begin in the stream, and {closed} end")
    for index, text in parts.items():
        blocks[index]["input"] = _object(text)
    return _of_blocks([blocks[index] for index in sorted(blocks)], finish, usage)


def _object(text: str) -> Any:
    try:
        return json.loads(text or "{}")
    except ValueError:
        raise Wrong(f"the parts of a call's arguments are together no JSON: {quoted(text)}") from None
