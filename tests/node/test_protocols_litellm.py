"""Anthropic's messages, OpenAI's responses and the list of models, through the real LiteLLM to a scripted engine."""

from __future__ import annotations

import json
from typing import Any

import pytest

from tests.bench.routing import doors
from tests.node.scripted import ScriptedDouble
from tests.node.strangers import request

pytestmark = pytest.mark.skipif(not doors.LITELLM.exists(), reason="no LiteLLM here: `make venv-proxy` installs it")

MESSAGES: dict[str, Any] = {
    "model": "double",
    "max_tokens": 9,
    "system": "Be brief",
    "messages": [{"role": "user", "content": "Hi"}],
}
RESPONSES: dict[str, Any] = {"model": "double", "input": "Hi"}


def event(name: str, **said: Any) -> bytes:
    return f"event: {name}\ndata: {json.dumps({'type': name, **said}, indent=None)}\n\n".encode()


START = event("message_start", message={"usage": {"input_tokens": 7, "output_tokens": 0}})
TEXT = event("content_block_delta", delta={"type": "text_delta", "text": "Hello"})
STOP = event("message_delta", usage={"output_tokens": 2}) + event("message_stop")
CREATED = event("response.created")
DELTA = event("response.output_text.delta", delta="Hello")
COMPLETED = event("response.completed", response={"usage": {"input_tokens": 7, "output_tokens": 2}})


def ask(
    door: doors.Door, path: str, asked: dict[str, Any], *script: tuple[int, bytes], key: str = ""
) -> tuple[int, dict[str, str], bytes]:
    """One request, whose engine answers so; all of the script has to be asked for."""
    ScriptedDouble.script, ScriptedDouble.asked[:] = list(script), []
    got = request(door.url, "POST", path, key or door.key, asked)
    assert ScriptedDouble.script == []
    return got


@pytest.mark.parametrize(
    ("path", "asked", "answer"),
    [
        ("/v1/messages", MESSAGES, b'{"type" : "message", "usage": {"input_tokens": 7, "output_tokens": 2}}'),
        ("/v1/messages/count_tokens", MESSAGES, b'{"input_tokens" :7}'),
        ("/v1/responses", RESPONSES, b'{"object" : "response"}'),
        ("/v1/score", {"model": "double", "text_1": "a", "text_2": "b"}, b'{"data" : []}'),
        ("/detokenize", {"model": "double", "tokens": [1]}, b'{"prompt" : "a"}'),
    ],
)
def test_an_answer_comes_byte_for_byte(door: doors.Door, path: str, asked: dict[str, Any], answer: bytes) -> None:
    assert ask(door, path, asked, (200, answer))[::2] == (200, answer)
    assert ScriptedDouble.asked == [asked]


@pytest.mark.parametrize(
    ("path", "asked", "stream"),
    [("/v1/messages", MESSAGES, START + TEXT + STOP), ("/v1/responses", RESPONSES, CREATED + DELTA + COMPLETED)],
)
def test_a_stream_comes_byte_for_byte(door: doors.Door, path: str, asked: dict[str, Any], stream: bytes) -> None:
    status, headers, text = ask(door, path, {**asked, "stream": True}, (200, stream))
    assert (status, text) == (200, stream) and headers["content-type"].startswith("text/event-stream")


@pytest.mark.parametrize(
    ("path", "asked", "begin", "whole"),
    [
        ("/v1/messages", MESSAGES, START, START + TEXT + STOP),
        ("/v1/responses", RESPONSES, CREATED, CREATED + COMPLETED),
    ],
)
def test_a_stream_that_breaks_before_its_first_text_begins_anew(
    door: doors.Door, path: str, asked: dict[str, Any], begin: bytes, whole: bytes
) -> None:
    assert ask(door, path, {**asked, "stream": True}, (200, begin), (200, whole))[2] == whole


@pytest.mark.parametrize(
    ("path", "asked", "half"),
    [("/v1/messages", MESSAGES, START + TEXT), ("/v1/responses", RESPONSES, CREATED + DELTA)],
)
def test_a_stream_that_breaks_behind_it_ends_with_the_protocol_s_own_error(
    door: doors.Door, path: str, asked: dict[str, Any], half: bytes
) -> None:
    _, _, text = ask(door, path, {**asked, "stream": True}, (200, half))
    assert text.startswith(half + b"event: error\ndata: ") and text.endswith(b"\n\n")
    said = json.loads(text.split(b"data: ")[-1])
    assert said["type"] == "error" and "broke off" in json.dumps(said)


@pytest.mark.parametrize("word", ["response.completed", "error", "message_stop"])
def test_words_of_an_end_within_a_text_end_nothing(door: doors.Door, word: str) -> None:
    told = event("response.created", instructions=f"say: event: {word}\nevent: {word}")
    stream = told + DELTA + event("response.output_text.done", text=f"\nevent: {word}\n") + COMPLETED
    assert ask(door, "/v1/responses", {**RESPONSES, "stream": True}, (200, stream))[2] == stream


def test_a_failure_that_two_streams_begin_with_is_the_request_s(door: doors.Door) -> None:
    failure = event("error", error={"type": "api_error", "message": "no such picture"})
    asked = {**MESSAGES, "stream": True}
    assert ask(door, "/v1/messages", asked, (200, START + failure), (200, START + failure))[2] == START + failure
    # No engine is left alone for it.
    assert ask(door, "/v1/messages", asked, (200, START + TEXT + STOP))[2] == START + TEXT + STOP


def test_refusals_have_the_protocol_s_form(door: doors.Door) -> None:
    for key, asked, status, kind in (
        ("sk-nobody", MESSAGES, 401, "authentication_error"),
        ("", {**MESSAGES, "model": "another"}, 404, "not_found_error"),
        ("", {**MESSAGES, "messages": [5]}, 400, "invalid_request_error"),
    ):
        got, _, body = ask(door, "/v1/messages", asked, key=key)
        said = json.loads(body)
        assert (got, said["type"], said["error"]["type"]) == (status, "error", kind)
    own = b'{"type":"error","error":{"type":"invalid_request_error","message":"too long"}}'
    assert ask(door, "/v1/messages", MESSAGES, (400, own))[::2] == (400, own)
    status, _, body = ask(door, "/v1/responses", {**RESPONSES, "background": True})
    assert status == 400 and "leave it out" in json.loads(body)["error"]["message"]


def test_an_engine_that_does_not_have_a_protocol_is_told_in_words(door: doors.Door) -> None:
    status, _, body = ask(door, "/v1/messages", MESSAGES, (404, b'{"detail":"Not Found"}'))
    assert status == 404 and "does not speak /v1/messages" in json.loads(body)["error"]["message"]


def test_models_say_how_long_their_context_is_and_what_they_are_asked_for(door: doors.Door) -> None:
    for path, wanted in (("/v1/models", 200), ("/v1/models/double", 200), ("/models/a/b", 404)):
        status, _, body = request(door.url, "GET", path, door.key)
        assert status == wanted
        said = json.loads(body)
        if status == 200:
            one = said["data"][0] if "data" in said else said
            assert (one["id"], one["max_model_len"], one["answers"]) == ("double", 131_072, "chat")
