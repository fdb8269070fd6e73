"""The requests: what each sends, and behind which others. An answer may serve several checks."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from operations.plan.answers import recited, texts
from operations.plan.answers.shapes import Question, Seen
from operations.wire import Json

CHAT, MESSAGES, COUNTS = "chat/completions", "messages", "messages/count_tokens"
#: Characters of the long text at most: some 25,000 tokens, ten seconds of a Spark's work. And of noise, whose words
#: cost a token for each character.
_LONG, _LONG_NOISE = 100_000, 12_000
_SCHEMA = {"type": "json_schema", "json_schema": {"name": "person", "strict": True, "schema": texts.PERSON}}
_BOOK: Json = {"type": "function", "function": {"name": "book_table"}}


def user(text: str) -> list[Json]:
    """A conversation of one question."""
    return [{"role": "user", "content": text}]


def _chat(name: str, messages: list[Json], tokens: int = 64, needs: tuple[str, ...] = (), **more: Any) -> Question:
    """A question of OpenAI's protocol, at temperature 0."""

    def body(seen: Seen) -> Json:
        room = {"max_tokens": seen.subject.room(tokens), "temperature": 0, "seed": 1}
        return _streamed({"messages": messages, **room, **more})

    return Question(name, CHAT, body, ("chat", *needs))


def _cut(name: str, messages: list[Json], needs: tuple[str, ...] = (), **more: Any) -> Question:
    """A question of which only the count of the prompt's tokens is wanted."""
    body = {"messages": messages, "max_tokens": 1, "temperature": 0, **more}
    return Question(name, CHAT, lambda _: body, ("chat", *needs))


def _forced(name: str, text: str, tools: tuple[str, ...], choice: str | Json, **more: Any) -> Question:
    """A call that is demanded. Noise does not end where arguments are left open. So vLLM leaves those of a tool that is
    not `strict` (structural_tag_registry.py of 0.32).
    """

    def body(seen: Seen) -> Json:
        asked: Json = {"tools": texts.tools(*tools, strict=seen.subject.is_noise), "tool_choice": choice}
        return _chat(name, user(text), 256, parallel_tool_calls=False, **asked, **more).body(seen)

    return Question(name, CHAT, body, ("chat", "named" if isinstance(choice, dict) else "forced"))


def _message(name: str, text: str, tokens: int = 64, needs: tuple[str, ...] = (), **more: Any) -> Question:
    """A question of Anthropic's protocol."""

    def body(seen: Seen) -> Json:
        return {"messages": user(text), "max_tokens": seen.subject.room(tokens), "temperature": 0, **more}

    return Question(name, MESSAGES, body, ("chat", *needs))


def _streamed(body: Json) -> Json:
    return body | ({"stream_options": {"include_usage": True}} if body.get("stream") else {})


def _stopped(stream: bool) -> Callable[[Seen], Json]:
    """The same question as `count`, with a word of its answer as the one at which it stops."""

    def body(seen: Seen) -> Json:
        stop = texts.stop_word(seen.chat("count").text)
        room = {"max_tokens": _COUNTED, "temperature": 0, "seed": 1, "stop": [stop], "stream": stream}
        return _streamed({"messages": user(texts.COUNT), **room})

    return body


def _stopped_message(seen: Seen) -> Json:
    stop = texts.stop_word(seen.chat("count").text)
    return {"messages": user(texts.COUNT), "max_tokens": _COUNTED, "temperature": 0, "stop_sequences": [stop]}


def _needle(seen: Seen) -> Json:
    text = texts.haystack(long(seen))
    ask = "What is the code of the north gate? Answer with the code alone."
    return {"messages": user(f"{text}\n\n{ask}"), "max_tokens": seen.subject.room(32), "temperature": 0}


def long(seen: Seen) -> int:
    """Characters of the long text: half of the context, even where each of them is a token."""
    return min(seen.subject.context // 2, _LONG_NOISE if seen.subject.is_noise else _LONG)


#: Tokens of the answer that is stopped; thoughts count as well, so that it needs no more.
_COUNTED = 96
_TURNS: list[Json] = [
    {"role": "user", "content": f"My name is {texts.NAME}."},
    {"role": "assistant", "content": "Good to meet you."},
    {"role": "user", "content": "What is my name? Answer with the name alone."},
]
_RULED: list[Json] = [{"role": "system", "content": texts.RULE}, *user("How are you?")]
_RETURNED: list[Json] = [
    *user(texts.ASK_WEATHER),
    texts.call({"city": "Paris", "unit": "C"}),
    {"role": "tool", "tool_call_id": "call00001", "content": texts.RESULT},
]
_ONE, _TWO = texts.tools("get_weather"), texts.tools("get_weather", "book_table")

QUESTIONS: tuple[Question, ...] = (
    _chat("english", user(texts.CAPITALS["english"])),
    _chat("english-again", user(texts.CAPITALS["english"])),
    _chat("english-stream", user(texts.CAPITALS["english"]), stream=True),
    _chat("german", user(texts.CAPITALS["german"])),
    _chat("chinese", user(texts.CAPITALS["chinese"]), stream=True),
    Question(
        "count",
        CHAT,
        lambda _: {"messages": user(texts.COUNT), "max_tokens": _COUNTED, "temperature": 0, "seed": 1},
        ("chat",),
    ),
    Question("stop", CHAT, _stopped(stream=False), ("chat",), ("count",)),
    Question("stop-stream", CHAT, _stopped(stream=True), ("chat",), ("count",)),
    _cut("one-token", user(texts.COUNT)),
    # Where there is no system's message, a template may have one of its own, which is longer.
    _cut("ruled-short", [{"role": "system", "content": "PLUM"}, *_RULED[1:]]),
    _chat("ruled", _RULED),
    _cut("last-turn", _TURNS[-1:]),
    _chat("turns", _TURNS),
    Question("needle", CHAT, _needle, ("chat",)),
    _chat("logprobs", user(texts.CAPITALS["english"]), 16, ("logprobs",), logprobs=True, top_logprobs=3),
    _chat("schema", user(texts.SENTENCE), 128, ("schema",), response_format=_SCHEMA),
    _chat("schema-stream", user(texts.SENTENCE), 128, ("schema",), response_format=_SCHEMA, stream=True),
    _cut("no-tools", user(texts.ASK_WEATHER)),
    _chat("tool", user(texts.ASK_WEATHER), 192, ("tools",), tools=_TWO),
    _chat("tool-stream", user(texts.ASK_WEATHER), 192, ("tools",), tools=_TWO, stream=True),
    _chat("tool-two", user(texts.ASK_TWO), 256, ("tools",), tools=_TWO),
    _chat("tool-none", user(texts.ASK_WEATHER), 64, ("tools",), tools=_TWO, tool_choice="none"),
    _forced("forced", texts.ASK_WEATHER, ("get_weather",), "required"),
    _forced("forced-stream", texts.ASK_WEATHER, ("get_weather",), "required", stream=True),
    _forced("named", texts.ASK_TABLE, ("get_weather", "book_table"), _BOOK),
    _cut("returned-less", [*_RETURNED[:2], {**_RETURNED[2], "content": "{}"}], ("tools",), tools=_ONE),
    _chat("returned", _RETURNED, 96, ("tools",), tools=_ONE),
    _message("message", texts.CAPITALS["english"]),
    _message("message-stream", texts.CAPITALS["english"], stream=True),
    Question("message-stop", MESSAGES, _stopped_message, ("chat",), ("count",)),
    _message("message-tool", texts.ASK_WEATHER, 192, ("tools",), tools=texts.tools_of_messages("get_weather")),
    _message(
        "message-tool-stream",
        *(texts.ASK_WEATHER, 192, ("tools",)),
        tools=texts.tools_of_messages("get_weather"),
        stream=True,
    ),
    Question("counted", COUNTS, lambda _: {"messages": user(texts.COUNT)}, ("chat",)),
    *recited.QUESTIONS,
)
