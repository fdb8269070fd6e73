"""A double of an engine with a model behind it: what a model writes goes through a template, a reasoning parser and a
tool parser, as in a real one, and each of them can be a wrong one. It speaks OpenAI's and Anthropic's protocol.

The model is right about all that the gate of answers asks; with `noise` it writes digits, and what it is told to write.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from tests.node.answering_said_double import Json, Written, chat, chat_stream, message, message_stream
from tests.support.serving import Quiet, serving

_CALL = re.compile(r"<tool_call>(.*?)</tool_call>", re.DOTALL)


@dataclass(frozen=True)
class Faults:
    """What is wrong with the double; and what its model is."""

    tool_parser: bool = False
    template_tools: bool = False
    template_system: bool = False
    default_system: bool = False
    appends: bool = False
    strays: bool = False
    leaked_end: bool = False
    reasoning_parser: bool = False
    stop: bool = False
    schema: bool = False
    cut_stream: bool = False
    swallows: bool = False
    misreads: bool = False
    forgets: bool = False
    thinks: bool = True
    noise: bool = False


def rendered(asked: Json, of: Faults) -> str:
    """The prompt, as a template writes it."""
    lines = [] if of.template_tools else [f"<tool>{json.dumps(each)}" for each in asked.get("tools") or []]
    if of.default_system and asked["messages"][0]["role"] != "system":
        lines.append(f"<|system|>{'You are of great help to everybody. ' * 20}<|end|>")
    for each in asked["messages"]:
        if each["role"] == "system" and of.template_system:
            continue
        thought = each.get("reasoning_content")
        inner = f"<think>{thought}</think>" if thought else ""
        inner += each["content"] if isinstance(each["content"], str) else json.dumps(each["content"])
        for call in [] if of.template_tools else each.get("tool_calls") or []:
            function = call["function"]
            said = {"name": function["name"], "arguments": json.loads(function["arguments"])}
            inner += f"<tool_call>{json.dumps(said)}</tool_call>"
        lines.append(f"<|{each['role']}|>{inner}<|end|>")
    return "".join(lines) + ("<|assistant|>" if asked.get("add_generation_prompt", True) else "")


def first_of(schema: Json) -> Any:
    """The first value that fits a schema, as guided decoding makes one of noise."""
    if "enum" in schema:
        return schema["enum"][0]
    if schema["type"] == "object":
        return {name: first_of(each) for name, each in schema["properties"].items()}
    return [first_of(schema["items"])] if schema["type"] == "array" else False


def _call(name: str, arguments: Any) -> str:
    return f"<tool_call>{json.dumps({'name': name, 'arguments': arguments})}</tool_call>"


def model_writes(asked: Json, of: Faults) -> str:
    """What comes out of the model, before anybody reads it."""
    if told := asked.get("structured_outputs"):
        return str(told["choice"][0])
    schema = (asked.get("response_format") or {}).get("json_schema", {}).get("schema")
    if schema and of.schema:
        return "Here is Anna, who is 34."
    tools = {each["function"]["name"]: each["function"]["parameters"] for each in asked.get("tools") or []}
    strict = {each["function"]["name"] for each in asked.get("tools") or [] if each["function"].get("strict")}
    choice = asked.get("tool_choice", "auto")
    if of.noise:
        forced = choice["function"]["name"] if isinstance(choice, dict) else next(iter(tools), "")
        if schema:
            return json.dumps(first_of(schema))
        if choice in ("auto", "none"):
            return "12 " * 60
        # Where the arguments are left open, noise comes to no end: so vLLM 0.32 does where a tool is not strict.
        open_ended = f'<tool_call>{{"name": "{forced}", "arguments": {"12 " * 500}'
        return _call(forced, first_of(tools[forced])) if forced in strict else open_ended
    thought = "<think>Let me see.</think>" if of.thinks else ""
    return thought + _right(asked, schema, tools, choice, of)


def _right(asked: Json, schema: Json | None, tools: Json, choice: Any, of: Faults) -> str:
    last = asked["messages"][-1]
    text = last["content"] if isinstance(last["content"], str) else ""
    if schema:
        return json.dumps({"name": "Anna", "age": 34, "city": "Rome", "is_married": False})
    if last["role"] == "tool":
        return "It is 23 degrees."
    if tools and choice != "none":
        if "Book" in text:
            guests = [{"name": "Anna", "is_child": False}, {"name": "Bruno", "is_child": True}]
            return _call("book_table", {"guests": guests, "hour": 19})
        if of.strays and choice == "auto":
            return _call("weather_of", {"place": "Paris"})
        cities = [each for each in ("Paris", "Rome") if each in text]
        return "".join(_call("get_weather", {"city": each, "unit": "C"}) for each in cities)
    if asked["messages"][0]["role"] == "system":
        return "PLUM"
    answers = {
        "France": "Paris",
        "Österreich": "Wien",
        "日本": "东京",
        "my name": "Katharina",
        "north gate": "48-17-93",
    }
    if of.forgets:
        answers = {"France": "London"}
    if "Count" in text:
        return "one\ntwo\nthree\nfour\nfive\nsix\nseven\neight\nnine\nten\neleven\ntwelve"
    return next((right for word, right in answers.items() if word in text), "Well.")


def read(raw: str, asked: Json, of: Faults) -> Written:
    """As an engine reads what its model writes."""
    limit, finish = asked.get("max_tokens", 10_000), "stop"
    stops = asked.get("stop") or asked.get("stop_sequences") or []
    for word in [] if of.stop else stops:
        raw = raw.partition(word)[0]
    words = re.findall(r"\S+\s*", raw)
    if len(words) > limit:
        raw, finish = "".join(words[:limit]), "length"
    thought, content = "", raw
    if not of.reasoning_parser and not of.appends and (found := re.match(r"<think>(.*?)(</think>|$)", raw, re.DOTALL)):
        thought, content = found[1], raw[found.end() :]
    if of.swallows:
        thought, content = thought + content, ""
    calls = list[tuple[str, str]]()
    if asked.get("tools") and asked.get("tool_choice") != "none" and not of.tool_parser:
        for each in _CALL.findall(content):
            said = json.loads(each)
            calls.append((said["name"], json.dumps(said["arguments"] | ({"unit": "C"} if of.misreads else {}))))
        content = _CALL.sub("", content)
        finish = "tool_calls" if calls else finish
    if of.leaked_end and finish == "stop":
        content += "<|end|>"
    return Written(thought, content, calls, finish, min(len(words), limit))


def in_openai_form(asked: Json) -> Json:
    """Anthropic's tools as OpenAI's."""
    tools = asked.get("tools") or []
    made = [{"function": {"name": each["name"], "parameters": each["input_schema"]}} for each in tools]
    return {**asked, "tools": made}


@contextmanager
def answering(of: Faults) -> Iterator[str]:
    """The double at an address, with /v1, until the end."""

    class Double(Quiet):
        def do_POST(self) -> None:
            asked = self.sent()
            if self.path.endswith("/tokenize"):
                return self.say({"tokens": [ord(each) for each in rendered(asked, of)]})
            if self.path.endswith("/detokenize"):
                return self.say({"prompt": "".join(map(chr, asked["tokens"]))})
            is_message = self.path.startswith("/v1/messages")
            asked = in_openai_form(asked) if is_message else asked
            prompt = len(rendered(asked, of)) // 4
            if self.path == "/v1/messages/count_tokens":
                return self.say({"input_tokens": prompt})
            written = read(model_writes(asked, of), asked, of)
            whole, stream = (message, message_stream) if is_message else (chat, chat_stream)
            if not asked.get("stream"):
                return self.say(whole(written, asked, prompt))
            events = list(stream(written, asked, prompt))
            data = "".join(f"data: {each}\n\n" for each in (events[:-1] if of.cut_stream else events))
            return self.reply(data.encode())

        def say(self, body: Json) -> None:
            self.reply(json.dumps(body).encode())

    with serving(Double) as url:
        yield f"{url}/v1"
