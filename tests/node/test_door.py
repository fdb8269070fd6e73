"""The door before LiteLLM's application: whose key it is, and what it is for.

tests/node/test_door_litellm.py asks the real one.
"""

from __future__ import annotations

import asyncio
import json
import sys
import time
from collections import Counter
from typing import Any

import pytest

from operations.plan.services.proxy_service import BUFFER
from tests.node.door_double import CHAT, Outcome, Setup, a_door
from tests.node.strangers import in_openai_form

__all__ = ["a_door"]


@pytest.mark.parametrize("key", [None, "", "sk-nobody", "sk-owne", "sk-owner2", "sk-" + "x" * 10_000, "\xff\0"])
def test_a_key_that_is_none_gets_401_and_litellm_hears_nothing(setup: Setup, key: str | None) -> None:
    setup.key("alice")
    got = setup.once(key)
    assert got.status == 401 and in_openai_form(got.body)["code"] == "invalid_api_key"
    assert got.headers[b"content-length"] == str(len(got.body)).encode()
    assert setup.application.asked == []


def test_a_key_that_has_expired_gets_401(setup: Setup) -> None:
    setup.key("alice", expires=time.time() - 1)
    setup.key("bob", expires=time.time() + 60)
    got = setup.once("sk-alice")
    assert got.status == 401 and "has expired" in in_openai_form(got.body)["message"]
    assert setup.once("sk-bob").status == 200


def test_a_key_is_in_force_and_out_of_it_without_a_restart(setup: Setup) -> None:
    assert setup.once("sk-alice").status == 401
    setup.key("alice")
    assert setup.once("sk-alice").status == 200
    (setup.folder / "keys.json").unlink()
    assert setup.once("sk-alice").status == 401
    assert setup.once("sk-owner").status == 200


@pytest.mark.parametrize(
    "headers",
    [
        [(b"authorization", b"Basic sk-alice")],
        [(b"authorization", b"Bearer")],
        [(b"authorization", b"Bearer sk-alice"), (b"authorization", b"Bearer sk-owner")],
        [(b"cookie", b"token=sk-alice")],
        # The first that LiteLLM would take decides; another one is not a second try.
        [(b"authorization", b"Bearer sk-nobody"), (b"x-api-key", b"sk-alice")],
    ],
)
def test_a_key_elsewhere_or_two_of_them_are_none(setup: Setup, headers: Any) -> None:
    setup.key("alice")
    assert setup.once(None, headers=headers).status == 401


@pytest.mark.parametrize(
    "header",
    [(b"authorization", b"bearer  sk-alice"), (b"authorization", b"sk-alice"), (b"x-api-key", b"sk-alice")]
    + [(name, b"sk-alice") for name in (b"api-key", b"x-litellm-api-key", b"x-goog-api-key")],
)
def test_headers_in_which_litellm_finds_a_key_do(setup: Setup, header: tuple[bytes, bytes]) -> None:
    setup.key("alice")
    assert setup.once(None, headers=[header]).status == 200


def test_litellm_gets_the_owner_s_key_and_nothing_that_tells_it_what_to_do(setup: Setup) -> None:
    setup.key("alice")
    headers = [(b"x-litellm-timeout", b"1"), (b"accept-encoding", b"gzip"), (b"x-api-key", b"sk-1"), (b"accept", b"a")]
    setup.once("sk-alice", headers=headers, query_string=b"team_id=1")
    (asked,) = setup.application.asked
    assert asked["headers"] == [(b"accept", b"a"), (b"authorization", b"Bearer sk-owner")]
    assert asked["query_string"] == b""


def test_the_owner_s_headers_stay_but_for_the_keys(setup: Setup) -> None:
    headers = [(b"x-litellm-timeout", b"1"), (b"accept-encoding", b"gzip"), (b"x-api-key", b"sk-1")]
    setup.once("sk-owner", "GET", "/model/info", headers=headers, query_string=b"a=b")
    (asked,) = setup.application.asked
    assert (
        asked["headers"] == [*headers[:2], (b"authorization", b"Bearer sk-owner")] and asked["query_string"] == b"a=b"
    )
    # An answer that the door has to read comes as it is.
    setup.once("sk-owner", headers=headers)
    assert setup.application.asked[-1]["headers"] == [headers[0], (b"authorization", b"Bearer sk-owner")]


@pytest.mark.parametrize("version", ["", "/v1"])
def test_what_clients_are_there_for_is_open_to_them(setup: Setup, version: str) -> None:
    setup.key("alice")
    for path in ("chat/completions", "completions", "embeddings", "rerank", "messages", "responses", "tokenize"):
        assert setup.once("sk-alice", "POST", f"{version}/{path}").status == 200
        assert setup.once("sk-alice", "GET", f"{version}/{path}").status == 404
    for path in ("models", "models/m", "models/org/m"):
        assert setup.once("sk-alice", "GET", f"{version}/{path}").status == 200
        assert setup.once("sk-alice", "POST", f"{version}/{path}").status == 404


#: What clients have no business with, and ways around a list.
ELSEWHERE = """
/ /key/generate /model/info /config/yaml /health /metrics /routes /v1/realtime /ui /v1/chat/completions/ //v1/models *
/V1/models /v1/models/ /v1/models//a /v3/rerank /v1/chat/completions/../../key/generate /v1/models/../.. /v1/v1/models
/v1/models/../../key/list /key/generate/v1/models
"""


@pytest.mark.parametrize("path", ["", "/v1/models\n", *ELSEWHERE.split()])
def test_nothing_else_is(setup: Setup, path: str) -> None:
    setup.key("alice")
    for method in ("GET", "POST", "PUT", "DELETE", "HEAD", "OPTIONS", "PATCH"):
        got = setup.once("sk-alice", method, path)
        assert got.status == 404
        assert got.body == b"" if method == "HEAD" else in_openai_form(got.body)["code"] == "not_found"
    assert setup.application.asked == []


def test_liveness_needs_no_key_and_nothing_else_of_it_is_open(setup: Setup) -> None:
    assert setup.once(None, "GET", "/health/liveliness").status == 200
    assert setup.once(None, "POST", "/health/liveliness").status == 401
    assert setup.once(None, "GET", "/health/liveliness/").status == 401


def test_a_browser_may_ask_whether_it_may_ask(setup: Setup) -> None:
    asks = [(b"origin", b"http://a"), (b"access-control-request-method", b"POST")]
    assert setup.once(None, "OPTIONS", headers=asks).status == 200
    assert setup.once(None, "OPTIONS", "/key/generate", headers=asks).status == 401
    assert setup.once(None, "OPTIONS", headers=asks[:1]).status == 401
    assert setup.once(None, "POST", headers=asks).status == 401


@pytest.mark.parametrize("extension", [True, False])
def test_a_websocket_wants_the_owner_s_key(setup: Setup, extension: bool) -> None:
    sent: list[Any] = []

    async def send(message: Any) -> None:
        sent.append(message)

    async def receive() -> Any:
        return {"type": "websocket.connect"}

    scope: dict[str, Any] = {
        "type": "websocket",
        "path": "/v1/realtime",
        "headers": [],
        "query_string": b"",
        "client": None,
    }
    extensions: dict[str, Any] = {"websocket.http.response": {}} if extension else {}
    asyncio.run(setup.door({**scope, "extensions": extensions}, receive, send))
    assert sent[0].get("status") == 401 if extension else sent == [{"type": "websocket.close", "code": 1008}]


@pytest.mark.parametrize(
    ("chunk", "count", "status"),
    [
        # By its length, which the proxy can't see where there is no Content-Length.
        (b"x" * 1000, 9, 200),
        (b"x" * 1000, 11, 413),
        # By what LiteLLM makes of it.
        (b"[],{}," * 100, 9, 200),
        (b"[],{}," * 100, 11, 413),
    ],
)
def test_a_body_that_is_too_much_is_refused_as_it_arrives(
    setup: Setup, monkeypatch: pytest.MonkeyPatch, chunk: bytes, count: int, status: int
) -> None:
    monkeypatch.setenv("TANDEM_BODY_BYTES", "10000")
    monkeypatch.setattr(sys.modules["door_size"], "MOST_PIECES", 4000)
    setup.application.reads = True
    outcome = setup.once("sk-owner", chunks=[chunk] * count + [b"x"])
    assert outcome.status == status
    assert setup.application.read <= 10000
    if status == 413:
        assert json.loads(outcome.body)["error"]["code"] == "request_too_large"


def test_large_bodies_are_refused_while_others_take_the_room(setup: Setup, monkeypatch: pytest.MonkeyPatch) -> None:
    """A hundred uploads that are never finished would end LiteLLM for memory, with all streams."""
    size = sys.modules["door_size"]
    for name, said in (("HELD", 30_000), ("HELD_EACH", 20_000), ("SMALL", 1_000), ("_held", Counter[str]())):
        monkeypatch.setattr(size, name, said)
    setup.application.reads = True
    setup.key("alice")
    # One of 15,000 fits, and is gone with its answer.
    for _ in range(3):
        assert setup.once("sk-owner", chunks=[b"x" * 15_000, b"x"]).status == 200
    size._held.update({"another": 29_000})
    refused = setup.once("sk-owner", chunks=[b"x" * 15_000, b"x"])
    assert refused.status == 503 and b"other large bodies" in refused.body
    assert refused.headers[b"retry-after"] == b"5"
    assert setup.once("sk-owner", chunks=[b"x" * 900, b"x"]).status == 200
    size._held.clear()
    # Nor has one key all of the room.
    assert setup.once("sk-alice", chunks=[b"x" * 15_000, b"x" * 9_000]).status == 503
    assert not size._held


@pytest.mark.parametrize(
    ("parts", "pause_s", "size", "status"),
    [
        # Nothing more comes; drops, each in time; what is slow and large enough; that, for too long.
        (1, 9.0, 10, 408),
        (40, 0.05, 10, 408),
        (4, 0.1, 512 << 10, 200),
        (40, 0.1, 512 << 10, 408),
    ],
)
def test_a_body_that_is_too_slow_is_refused_whatever_its_size(
    setup: Setup, monkeypatch: pytest.MonkeyPatch, parts: int, pause_s: float, size: int, status: int
) -> None:
    monkeypatch.setenv("TANDEM_REQUEST_S", "0.5")
    monkeypatch.setattr(sys.modules["door_size"], "PARTS", 2)
    setup.application.reads = True
    setup.key("alice", requests=1)

    async def ask() -> None:
        scope = {"type": "http", "method": "POST", "path": CHAT[1], "query_string": b"", "client": ("10.0.0.9", 1)}
        headers = [(b"authorization", b"Bearer sk-alice"), (b"transfer-encoding", b"chunked")]
        outcome, left = Outcome(), parts

        async def receive() -> Any:
            nonlocal left
            await asyncio.sleep(pause_s)
            left -= 1
            return {"type": "http.request", "body": b" " * size, "more_body": left > 0}

        await asyncio.wait_for(setup.door({**scope, "headers": headers}, receive, outcome.send), 5)
        assert outcome.status == status
        if status == 408:
            assert json.loads(outcome.body)["error"]["code"] == "request_timeout"
            assert outcome.headers[b"connection"] == b"close"
        assert (await setup.ask("sk-alice")).status == 200

    asyncio.run(ask())


def test_a_part_of_a_body_is_as_large_as_what_haproxy_waits_for(setup: Setup) -> None:
    assert setup.module.Size is sys.modules["door_size"].Size and sys.modules["door_size"].PART == BUFFER


def test_who_is_refused_has_the_answer_at_once_and_is_not_read_for_ever(
    setup: Setup, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys.modules["door_size"], "DROPPED_S", 0.3)

    async def ask(headers: list[tuple[bytes, bytes]], method: str) -> None:
        scope = {"type": "http", "method": method, "path": CHAT[1], "query_string": b"", "client": ("10.0.0.9", 1)}
        outcome, answered = Outcome(), asyncio.Event()

        async def drops() -> Any:
            await asyncio.sleep(0.01)
            return {"type": "http.request", "body": b" ", "more_body": True}

        async def send(message: Any) -> None:
            await outcome.send(message)
            if outcome.body:
                answered.set()

        said = [*headers, (b"content-length", b"900")]
        asking = asyncio.ensure_future(setup.door({**scope, "headers": said}, drops, send))
        await asyncio.wait_for(answered.wait(), 0.2)
        assert not asking.done()
        await asyncio.wait_for(asking, 3)
        assert outcome.headers[b"connection"] == b"close"

    asyncio.run(ask([], "POST"))
    # LiteLLM answers what a browser asks, without a key and without reading.
    asyncio.run(ask([(b"origin", b"x"), (b"access-control-request-method", b"POST")], "OPTIONS"))


def test_litellm_may_break_over_a_body_that_ends(setup: Setup, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TANDEM_BODY_BYTES", "1")

    async def breaks(_scope: Any, receive: Any, _send: Any) -> None:
        assert (await receive())["type"] == "http.disconnect"
        raise RuntimeError

    setup.door.application = breaks
    assert setup.once("sk-owner", chunks=[b"xx"]).status == 413


@pytest.mark.parametrize(
    ("text", "names"),
    [
        (b'{"a":1,"b" : 2,"c"\n:3}', 3),
        (rb'{"a\\":1}', 1),
        (rb'["{\"a\":1,\"b\":2}"]', 0),
        (b'["10:30, http://a:8000"]', 0),
        (b"[1,2,3]", 0),
    ],
)
def test_names_of_objects_are_told_apart_from_what_stands_in_a_text(text: bytes, names: int) -> None:
    size = sys.modules["door_size"]
    whole = size.Size({"type": "http", "path": "/v1/completions"}, None)
    assert whole._names(text) == names
    # Wherever its parts end, but within what is escaped.
    if b"\\" not in text:
        for at in range(len(text)):
            of = size.Size({"type": "http", "path": "/v1/completions"}, None)
            assert of._names(text[:at]) + of._names(text[at:]) == names
