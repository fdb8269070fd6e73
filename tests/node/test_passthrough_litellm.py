"""Chats through the real LiteLLM to an engine whose every word the test has written."""

from __future__ import annotations

import base64
import codecs
import json
import time
import urllib.error
import urllib.request
from typing import Any

import pytest

from tests.bench.routing import doors
from tests.node.litellm_proxy import CHAT
from tests.node.scripted import ScriptedDouble
from tests.node.strangers import request

pytestmark = pytest.mark.skipif(not doors.LITELLM.exists(), reason="no LiteLLM here: `make venv-proxy` installs it")

ASKED = {"model": "double", "messages": [{"role": "user", "content": "Hi"}], "max_tokens": 9}


def event(text: str = "", reason: str | None = None, index: int = 0, **delta: Any) -> bytes:
    """A chunk, spelled as no other program would: it shows whether bytes are passed on."""
    choice = {"index": index, "delta": {"content": text, **delta}, "finish_reason": reason}
    return b"data: " + json.dumps({"id": "one", "choices": [choice]}, indent=1).encode() + b"\n\n"


USAGE = b'data: {"id":"one","choices":[],"usage":{"prompt_tokens":3,"completion_tokens":2,"total_tokens":5}}\n\n'
DONE = b"data: [DONE]\n\n"


def ask(door: doors.Door, *script: tuple[int, bytes], **more: Any) -> tuple[int, dict[str, str], bytes]:
    """One chat, whose engine answers so; all of the script has to be asked for."""
    ScriptedDouble.script, ScriptedDouble.asked[:] = list(script), []
    got = request(door.url, "POST", CHAT, door.key, {**ASKED, **more})
    assert ScriptedDouble.script == []
    return got


def test_a_stream_comes_byte_for_byte(door: doors.Door) -> None:
    status, headers, text = ask(door, (200, event("a") + event("b", "stop") + USAGE + DONE), stream=True)
    assert status == 200 and headers["content-type"].startswith("text/event-stream")
    # What it cost the client has not asked for.
    assert text == event("a") + event("b", "stop") + DONE
    assert ScriptedDouble.asked == [{**ASKED, "stream": True, "stream_options": {"include_usage": True}}]


def test_an_answer_and_a_refusal_come_byte_for_byte(door: doors.Door) -> None:
    for status, body in (
        (200, b'{"choices" : [],  "usage": {"total_tokens": 7}}'),
        (400, b'{"error" : {"code": 400}}'),
    ):
        for stream in (False, True):
            assert ask(door, (status, body), stream=stream)[::2] == (status, body)


def test_a_stream_that_breaks_goes_on(door: doors.Door) -> None:
    broken = event("", role="assistant") + event("ab")
    _, _, text = ask(door, (200, broken), (200, event("c", "stop") + USAGE + DONE), stream=True)
    first, more, end = text.partition(event("ab"))
    assert first == event("", role="assistant") and more
    assert json.loads(end.split(b"\n\n")[0].removeprefix(b"data: "))["choices"][0]["delta"]["content"] == "c"
    assert end.endswith(DONE)
    assert ScriptedDouble.asked[1]["messages"][-1] == {"role": "assistant", "content": "ab"}
    assert ScriptedDouble.asked[1]["max_tokens"] == 7


def test_an_engine_that_says_in_a_stream_that_it_is_dead_is_left(door: doors.Door) -> None:
    dead = b'data: {"error": {"message": "EngineDeadError", "code": 500}}\n\n' + DONE
    _, _, text = ask(door, (200, event("ab") + dead), (200, event("c", "stop") + USAGE + DONE), stream=True)
    assert b"EngineDeadError" not in text and text.startswith(event("ab")) and text.endswith(DONE)


@pytest.mark.parametrize("stream", [False, True])
def test_a_request_that_an_engine_can_t_answer_is_told_so_in_its_words(door: doors.Door, stream: bool) -> None:
    """It is asked twice, and is no fault of the engine's: the next request is answered at once."""
    words = (501, b'{"error" : {"message": "no such picture", "code": 501}}')
    began = time.monotonic()
    assert ask(door, words, words, stream=stream)[::2] == words
    well = (200, b'{"choices" : [],  "usage": {"total_tokens": 7}}')
    assert ask(door, well)[::2] == well
    assert time.monotonic() - began < 10


def test_a_failure_that_two_streams_begin_with_is_the_request_s(door: doors.Door) -> None:
    failure = b'data: {"error": {"message": "no such picture", "code": 500}}\n\n'
    role = event("", role="assistant")
    _, _, text = ask(door, (200, role + failure + DONE), (200, role + failure + DONE), stream=True)
    assert text.startswith(role) and text.endswith(failure + DONE) and text.count(b"error") == 1


def test_a_failure_that_passes_is_not_told(door: doors.Door) -> None:
    well = (200, b'{"choices" : [],  "usage": {"total_tokens": 7}}')
    assert ask(door, (500, b"{}"), well)[::2] == well
    # Nor one by which an engine says that it is away for now.
    assert ask(door, (503, b"{}"), well)[::2] == well


@pytest.mark.parametrize("tools", [5, [5], {}, "x", [None]])
def test_tools_that_are_none_are_the_engine_s_to_refuse(door: doors.Door, tools: Any) -> None:
    refused = (400, b'{"error" : {"code": 400}}')
    assert ask(door, refused, tools=tools)[::2] == refused


@pytest.mark.parametrize(
    ("path", "more", "answer"),
    [
        (
            "embeddings",
            {"input": [[1, 2], [3]], "encoding_format": "base64"},
            b'{"data" : [],"usage":{"total_tokens":3}}',
        ),
        ("rerank", {"query": "a", "documents": ["b"], "top_n": 1}, b'{"results" : [],"usage":{"total_tokens":3}}'),
    ],
)
def test_vectors_and_rankings_come_byte_for_byte(
    door: doors.Door, path: str, more: dict[str, Any], answer: bytes
) -> None:
    # None of them streams, whatever the client says.
    body = {"model": "double", "stream": True, **more}
    for code in (200, 400, 404):
        ScriptedDouble.script, ScriptedDouble.asked[:] = [(code, answer)], []
        assert request(door.url, "POST", f"/v1/{path}", door.key, body)[::2] == (code, answer)
        assert ScriptedDouble.asked == [body]


def test_an_engine_that_is_stopped_ends_no_answer(door: doors.Door) -> None:
    aborted = event("ab") + event("", "abort") + DONE
    _, _, text = ask(door, (200, aborted), (200, event("c", "stop") + USAGE + DONE), stream=True)
    assert b"abort" not in text and text.startswith(event("ab")) and text.endswith(DONE)
    whole = b'{"choices":[{"message":{"content":"7"},"finish_reason":"%b"}]}'
    assert ask(door, (200, whole % b"abort"), (200, whole % b"stop"))[2] == whole % b"stop"


def test_a_stream_that_ends_without_a_word_why_is_no_answer(door: doors.Door) -> None:
    """An engine that is stopped may end one before its first token."""
    for given in ("", "ab"):
        _, _, text = ask(door, (200, event(given) + DONE), (200, event("c", "stop") + USAGE + DONE), stream=True)
        assert b'"content":"c"' in text
        assert text.startswith(event(given)) and text.count(DONE) == 1 and text.endswith(DONE)


def test_of_several_choices_each_has_its_end(door: doors.Door) -> None:
    """Where one has none the client is told; with all of them nothing but the last word is missing."""
    first = event("a", "stop") + event("b", index=1)
    _, _, text = ask(door, (200, first), stream=True, n=2)
    assert text.startswith(first) and b"broke off" in text and not text.endswith(DONE)
    for end in (b"", DONE):
        _, _, text = ask(door, (200, first + event("", "stop", 1) + end), stream=True, n=2)
        assert text == first + event("", "stop", 1) + DONE


def test_a_stream_of_completions_is_ended_when_each_prompt_s_is(door: doors.Door) -> None:
    def piece(text: str, reason: str | None, index: int = 0) -> bytes:
        return b"data: " + json.dumps({"choices": [{"index": index, "text": text, "finish_reason": reason}]}).encode()

    body = {"model": "double", "prompt": ["Hi", "Ho"], "max_tokens": 9, "stream": True}
    one, both = piece("a", "stop") + b"\n\n", piece("b", "stop", 1) + b"\n\n"
    # Nothing came of the first engine; the second one gives both, and no last word.
    ScriptedDouble.script = [(200, piece("", None) + b"\n\n"), (200, one + both)]
    text = request(door.url, "POST", "/v1/completions", door.key, body)[2]
    assert text.endswith(DONE) and text.count(b"stop") == 2
    ScriptedDouble.script = [(200, one + DONE)]
    text = request(door.url, "POST", "/v1/completions", door.key, body)[2]
    assert text.startswith(one) and b"broke off" in text and not text.endswith(DONE)


def test_beams_may_end_without_a_word_why(door: doors.Door) -> None:
    whole = event("a") + USAGE + DONE
    more = {"stream": True, "stream_options": {"include_usage": True}, "use_beam_search": True}
    _, _, text = ask(door, (200, whole), **more)
    assert text.startswith(event("a")) and b"usage" in text and text.endswith(DONE)


def test_what_an_engine_holds_against_a_request_in_its_stream_is_the_client_s(door: doors.Door) -> None:
    wrong = b'data: {"error": {"message": "too long", "code": 400}}\n\n' + DONE
    assert ask(door, (200, event("ab") + wrong), stream=True)[2] == event("ab") + wrong


def test_half_a_tool_call_ends_with_an_error(door: doors.Door) -> None:
    half = event(tool_calls=["half"])
    _, _, text = ask(door, (200, half), stream=True)
    assert text.startswith(half) and b"broke off" in text and not text.endswith(DONE)


def test_an_answer_that_had_its_end_is_ended(door: doors.Door) -> None:
    _, _, text = ask(door, (200, event("a") + event("", "stop")), stream=True)
    assert text == event("a") + event("", "stop") + DONE
    _, _, text = ask(door, (200, event("ab")), stream=True, max_tokens=2)
    assert b'"finish_reason":"length"' in text and text.endswith(DONE)


def test_half_an_answer_is_not_ended_as_whole_where_no_engine_is_left_to_count_it(
    door: doors.Door, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(ScriptedDouble, "counts", False)
    half, away = event("many letters in one token"), (500, b"{}")
    _, _, text = ask(door, (200, half), away, away, stream=True, max_tokens=3)
    assert text.startswith(half) and b"broke off" in text
    assert b'finish_reason":"length' not in text and not text.endswith(DONE)


def test_an_engine_that_refuses_the_rest_is_not_left_alone(door: doors.Door) -> None:
    refusal = b'{"error": {"message": "odd", "code": 400}}'
    _, _, text = ask(door, (200, event("a")), (400, refusal), stream=True)
    assert text.startswith(event("a")) and b"broke off" in text and not text.endswith(DONE)


def test_an_answer_that_fits_a_grammar_ends_where_it_broke_and_says_so(door: doors.Door) -> None:
    more = {"stream": True, "response_format": {"type": "json_object"}}
    _, _, text = ask(door, (200, event("a")), **more)
    assert text.startswith(event("a")) and b"broke off" in text and not text.endswith(DONE)


@pytest.mark.parametrize("stream", [True, False])
def test_an_engine_that_fails_is_asked_again_and_then_the_client_is_told_when_to_come_back(
    door: doors.Door, stream: bool
) -> None:
    failure = (503, b'{"error": {"message": "it is away"}}')
    good = (200, event("a", "stop") + USAGE + DONE) if stream else (200, b'{"choices": []}')
    assert ask(door, failure, good, stream=stream)[0] == 200
    status, headers, body = ask(door, failure, failure, stream=stream)
    # It says that it is away, and says at once that it lives.
    assert (status, headers["retry-after"]) == (503, "2")
    assert json.loads(body)["error"]["code"] == "service_unavailable"


def test_a_page_in_a_browser_may_read_it(door: doors.Door) -> None:
    ScriptedDouble.script = [(200, b"{}")]
    status, headers, _ = request(door.url, "POST", CHAT, door.key, ASKED, headers={"Origin": "https://a.example"})
    assert status == 200 and headers["access-control-allow-origin"] in ("*", "https://a.example")


def sent(door: doors.Door, body: bytes) -> tuple[int, bytes, Any]:
    """Status and answer of a chat that is sent so, and what its engine was asked."""
    ScriptedDouble.script, ScriptedDouble.asked[:] = [(200, b"{}")], []
    asked = urllib.request.Request(door.url + CHAT, body, {"Authorization": f"Bearer {door.key}"})
    try:
        with urllib.request.urlopen(asked) as answer:
            return answer.status, answer.read(), ScriptedDouble.asked[0]
    except urllib.error.HTTPError as refused:
        return refused.code, refused.read(), None


def test_bodies_are_read_as_engines_read_them(door: doors.Door) -> None:
    plain = json.dumps(ASKED).encode()
    assert sent(door, codecs.BOM_UTF8 + plain)[::2] == (200, ASKED)
    # Whole numbers are not rounded, whatever their length.
    large = {**ASKED, "messages": [{"role": "user", "content": [{"type": "x", "id": 12345678901234567890123}]}]}
    assert sent(door, json.dumps(large).encode())[::2] == (200, large)
    assert sent(door, json.dumps({**ASKED, "n": 2.0, "max_tokens": "9"}).encode())[2] == {**ASKED, "n": 2}
    # By such names two requests would meet in an engine.
    left_out = {"request_id": "a", "rid": "a", "stream_interval": 9}
    assert sent(door, json.dumps({**ASKED, **left_out}).encode())[2] == ASKED
    for odd in (plain.replace(b"9", b"NaN"), plain.replace(b"Hi", b"\\ud800")):
        assert sent(door, odd)[0] == 400
    for more in ({"n": "2000.0"}, {"n": 1, "best_of": 3_000}, {"n_cmpl": 3_000}, {"user": "a" * (9 << 20)}):
        assert sent(door, json.dumps({**ASKED, **more}).encode())[0] == 400


def test_pictures_have_more_room_than_words(door: doors.Door) -> None:
    header = b"\x89PNG\r\n\x1a\n" + (13).to_bytes(4) + b"IHDR" + (1).to_bytes(4) * 2 + bytes(9)
    data = base64.b64encode(header + bytes(4) + b"IDAT" + bytes(9 << 20)).decode()
    content: list[dict[str, Any]] = [{"type": "image_url", "image_url": {"url": f"data:image/png;base64,{data}"}}]
    asked = {**ASKED, "messages": [{"role": "user", "content": content}]}
    assert sent(door, json.dumps(asked).encode())[0] == 200
    # Such a number would be read anew, in one step, with all that stands beside it.
    content[0]["id"] = 12345678901234567890123
    assert sent(door, json.dumps(asked).encode())[0] == 400
    # Twice as long to read as what they stand for.
    assert sent(door, json.dumps({**ASKED, "user": "\n" * (9 << 20)}).encode())[0] == 400


def test_a_large_body_is_looked_through_beside_the_loop(door: doors.Door) -> None:
    large = {**ASKED, "messages": [{"role": "user", "content": "a" * 20}] * 4_000}
    assert sent(door, json.dumps(large).encode())[::2] == (200, large)
    status, said, _ = sent(door, json.dumps({**large, "tools": [{"a" * 300_000: 1}]}).encode())
    assert status == 400 and b"names in schemas and tools" in said
