"""The door before the real LiteLLM, configured as a deploy renders it, over a double of an engine.

LiteLLM is no part of what the tests install: `LITELLM` names the program of an environment that was made by the proxy
image's lock. The same questions are asked of the lab's proxy in tests/e2e/test_2_keys.py.
"""

from __future__ import annotations

import hashlib
import json
import re
import signal
import socket
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from itertools import count
from pathlib import Path
from typing import Any

import pytest
import yaml

from operations.node.door import drained, keys
from tests.node import strangers
from tests.node.confined import place
from tests.node.litellm_proxy import CHAT, LITELLM, OWNER, START_S, Proxy, body
from tests.node.strangers import in_openai_form, request
from tests.support.waiting import until

pytestmark = pytest.mark.skipif(not LITELLM.exists(), reason="no LiteLLM here: LITELLM= names one")


@pytest.fixture
def proxy(whole_litellm: Proxy, monkeypatch: pytest.MonkeyPatch) -> Proxy:
    """The shared one, with the node's program for keys beside it, and no key but the owner's."""
    monkeypatch.setattr(keys, "KEYS", whole_litellm.folder / "secrets/keys.json")
    monkeypatch.setattr(keys, "USED", whole_litellm.used / "used.json")
    monkeypatch.setattr(keys, "DOOR", whole_litellm.folder / "door.py")
    keys.KEYS.unlink(missing_ok=True)
    return whole_litellm


#: No key is ever made twice.
_numbers = count()


def make(name: str, **more: Any) -> str:
    """A new key, by the program that does it on a head."""
    key = f"sk-{name}-marker-{next(_numbers)}"
    plain: Any = {"within_s": None, "until": None, "requests": None, "tokens": None}
    made = keys.main(make=plain | {"name": name, "hash": hashlib.sha256(key.encode()).hexdigest()} | more)
    assert "made" in made
    return key


def row(name: str) -> Any:
    """Of `tandem keys`."""
    return next(each for each in keys.main()["keys"] if each["name"] == name)


def test_without_a_part_of_its_door_it_does_not_start(tmp_path: Path) -> None:
    with place(tmp_path) as folder:
        broken = Proxy(folder, without="door_keys.py", routes=False)
        try:
            assert broken.processes[-1].wait(START_S) != 0
            assert "door_keys" in broken.log.read_text()
            with pytest.raises(ConnectionRefusedError):
                request(broken.url, *strangers.LIVENESS)
        finally:
            broken.stop()


def test_of_all_routes_one_answers_without_a_key(proxy: Proxy) -> None:
    routes = proxy.routes()
    assert len(routes) > 1000 and strangers.LIVENESS in routes and ("POST", "/key/generate") in routes
    for key in (None, "sk-wrong"):
        found = strangers.walk(proxy.url, routes, key)
        assert {route for route, status in found.items() if status not in (401, 404)} == {strangers.LIVENESS}


def test_of_all_routes_a_client_s_key_reaches_what_clients_are_there_for(proxy: Proxy) -> None:
    found = strangers.walk(proxy.url, proxy.routes(), make("alice"))
    open_to = {path.removeprefix("/v1") for (_, path), status in found.items() if status not in (401, 404)}
    assert open_to == {
        *("/chat/completions", "/completions", "/embeddings", "/rerank", "/v2/rerank", "/models"),
        *("/messages", "/messages/count_tokens", "/responses", "/audio/speech", "/audio/transcriptions"),
        strangers.LIVENESS[1],
    }


@pytest.mark.parametrize("word", ["timeout", "stream_timeout", "request_timeout"])
def test_one_request_of_a_client_s_is_not_many_of_an_engine_s(proxy: Proxy, word: str) -> None:
    """LiteLLM takes both words from any body: an engine that has no time to answer is asked forty times."""
    policy = {"double": {"TimeoutErrorRetries": 40, "InternalServerErrorRetries": 40}}
    hasty = {word: 0.0001, "stream": word == "stream_timeout"}
    key = make("alice")
    for more, named in (
        ({**hasty, "model_group_retry_policy": policy}, "model_group_retry_policy"),
        (hasty, word),
        ({"model_group_retry_policy": policy}, "model_group_retry_policy"),
    ):
        status, _, text = proxy.chat(key, **more)
        assert status == 400 and named in in_openai_form(text)["message"]
    # The owner may.
    assert proxy.chat(OWNER, **hasty)[0] != 400


def test_liveness_says_nothing(proxy: Proxy) -> None:
    assert request(proxy.url, *strangers.LIVENESS)[2] == b'"I\'m alive!"'


@pytest.mark.parametrize("key", [None, "", "sk-wrong", "sk-" + "x" * 20_000])
def test_a_key_that_is_none_gets_401(proxy: Proxy, key: str | None) -> None:
    status, headers, text = proxy.chat(key)
    assert status == 401 and in_openai_form(text)["code"] == "invalid_api_key"
    assert headers["www-authenticate"] == "Bearer"


def test_the_owner_s_key_opens_everything(proxy: Proxy) -> None:
    assert proxy.chat(OWNER)[0] == 200
    assert request(proxy.url, "GET", "/model/info", OWNER)[0] == 200
    assert request(proxy.url, "GET", "/v1/models", None, headers={"x-api-key": OWNER})[0] == 200


def test_what_clients_are_there_for(proxy: Proxy) -> None:
    key = make("alice")
    assert [each["id"] for each in json.loads(request(proxy.url, "GET", "/v1/models", key)[2])["data"]] == ["double"]
    assert json.loads(request(proxy.url, "GET", "/v1/models/double", key)[2])["id"] == "double"
    assert json.loads(proxy.chat(key)[2])["choices"][0]["message"]["content"] == "7777"
    asked: Any = {
        "completions": {"prompt": "a", "max_tokens": 4},
        "embeddings": {"input": "a"},
        "rerank": {"query": "a", "documents": ["b", "c"]},
    }
    for path, more in asked.items():
        status, _, text = request(proxy.url, "POST", f"/v1/{path}", key, {"model": "double", **more})
        assert status == 200, text


def events(text: bytes) -> list[Any]:
    """Of a stream, the last word left out."""
    found = [part.removeprefix(b"data: ") for part in text.split(b"\n\n") if part]
    assert found[-1] == b"[DONE]"
    return [json.loads(each) for each in found[:-1]]


@pytest.mark.parametrize("path", ["chat/completions", "completions"])
@pytest.mark.parametrize("asks", [True, False])
def test_a_stream_tells_its_cost_to_who_asked_and_is_counted_either_way(proxy: Proxy, path: str, asks: bool) -> None:
    key = make("alice")
    what = body() if path.startswith("chat") else {"model": "double", "prompt": "a", "max_tokens": 4}
    options = {"stream_options": {"include_usage": True}} if asks else {}
    status, _, text = request(proxy.url, "POST", f"/v1/{path}", key, {**what, "stream": True, **options})
    assert status == 200
    said = events(text)
    pieces = [choice for each in said for choice in each["choices"]]
    assert "".join(piece.get("text") or piece.get("delta", {}).get("content") or "" for piece in pieces) == "7777"
    costs = [each["usage"]["total_tokens"] for each in said if each.get("usage")]
    assert len(said) == (5 if asks else 4)
    assert costs == ([1004] if asks else [])
    until(lambda: row("alice")["tokens"] == 1004, 60)
    keys.main(revoke="alice")


def test_a_stream_that_its_engine_breaks_off_costs_what_was_sent(proxy: Proxy) -> None:
    key = make("alice")
    proxy.chat(key, "break " + "x" * 394, 40, stream=True)
    until(lambda: row("alice")["requests"] == 1, 60)
    # The pieces that came, of each try, and the question as LiteLLM or the door count it: the engine never said.
    assert 20 < row("alice")["tokens"] < 1000


@contextmanager
def under_way(proxy: Proxy, key: str) -> Iterator[None]:
    """A stream that has begun and takes long; its client goes away at the end."""
    content = json.dumps(body("slow", 200, stream=True)).encode()
    with socket.create_connection(("127.0.0.1", proxy.port)) as client:
        head = f"POST {CHAT} HTTP/1.1\r\nHost: a\r\nAuthorization: Bearer {key}\r\nContent-Type: application/json\r\n"
        client.sendall(f"{head}Content-Length: {len(content)}\r\n\r\n".encode() + content)
        assert client.recv(15).endswith(b"200 OK")
        yield


def test_requests_at_once(proxy: Proxy) -> None:
    key, other = make("alice", requests=2), make("bob", requests=1)
    with under_way(proxy, key), under_way(proxy, key):
        status, headers, text = proxy.chat(key)
        assert status == 429 and headers["retry-after"] == "1"
        assert in_openai_form(text)["type"] == "requests"
        assert proxy.chat(other)[0] == 200
    # Both clients have gone.
    until(lambda: proxy.chat(key)[0] == 200, 60)


@pytest.mark.parametrize("stream", [True, False])
def test_tokens_a_minute(proxy: Proxy, stream: bool) -> None:
    key = make("alice", tokens=2000)
    assert [proxy.chat(key, stream=stream)[0] for _ in range(3)] == [200, 200, 429]
    status, headers, text = proxy.chat(key)
    assert status == 429 and 30 < int(headers["retry-after"]) <= 60
    assert in_openai_form(text)["message"] == "`alice` has used 2008 tokens in a minute, and may use 2000"
    keys.main(revoke="alice")


def test_keys_come_and_go_under_load_and_no_request_is_lost(proxy: Proxy) -> None:
    steady, ends, statuses = make("steady"), threading.Event(), list[int]()

    def ask() -> None:
        while not ends.is_set():
            statuses.append(proxy.chat(steady, stream=True)[0])

    with ThreadPoolExecutor() as pool:
        clients = [pool.submit(ask) for _ in range(4)]
        try:
            for _ in range(10):
                key = make("other")
                assert proxy.chat(key)[0] == 200
                assert keys.main(revoke="other")["revoked"] == "other"
                assert proxy.chat(key)[0] == 401
        finally:
            ends.set()
        for client in clients:
            client.result()
    assert len(statuses) > 4 and set(statuses) == {200}


def test_a_key_ends_when_it_ends(proxy: Proxy) -> None:
    key = make("alice", within_s=3.0)
    assert proxy.chat(key)[0] == 200
    until(lambda: proxy.chat(key)[0] == 401, 60)
    assert "has expired" in in_openai_form(proxy.chat(key)[2])["message"]


@pytest.mark.parametrize(
    "more",
    [
        {"model": "gpt-4o"},
        {"model": "double,double"},
        {"api_key": "sk-theirs-marker"},
        {"fallbacks": [{"model": "x"}]},
        {"api_base": "http://127.0.0.1:9"},
        {"user_config": {}},
        {"model_list": []},
        {"custom_llm_provider": "openai"},
    ],
    ids=lambda more: "-".join(more),
)
def test_a_body_that_would_send_it_elsewhere(proxy: Proxy, more: Any) -> None:
    status, _, text = request(proxy.url, "POST", CHAT, make("alice"), {**body(), **more})
    assert status in (400, 404, 500)
    assert set(json.loads(text)["error"]) == {"message", "type", "param", "code"}


def test_the_log_has_names_and_neither_prompts_nor_keys(proxy: Proxy) -> None:
    key = make("alice")
    proxy.chat(key)
    # The engine refuses it, and quotes it.
    assert proxy.chat(key, "wrong secret-prompt-marker")[0] == 400
    assert proxy.chat(key, "wrong secret-prompt-marker", stream=True)[0] == 400
    proxy.chat(key, "break secret-prompt-marker", 40, stream=True)
    request(proxy.url, "POST", CHAT, key, {**body(), "messages": "secret-prompt-marker"})
    # This one goes LiteLLM's way.
    assert proxy.chat(OWNER, "wrong secret-prompt-marker", num_retries=0)[0] == 400
    request(proxy.url, "POST", CHAT, key, {**body(), "api_base": "http://secret-prompt-marker"})
    for path in ("/v1/models?key=sk-query-marker", "/sk-path-marker", "/v1/models/sk-model-marker"):
        request(proxy.url, "GET", path, key)
        request(proxy.url, "GET", path, "sk-wrong-marker")
        request(proxy.url, "GET", path, OWNER)
    strangers.walk(proxy.url, [("websocket", "/v1/realtime?key=sk-socket-marker")], "sk-wrong-marker")
    log = proxy.log.read_text()
    assert not re.findall(r".*marker.*", log)
    assert "tandem: alice: POST /v1/chat/completions: 400" in log and "tandem: nobody: GET" in log
    # What is left of an error still says where it was, and of what kind.
    assert "BadRequestError" in log


def _connected(url: str) -> socket.socket:
    channel = socket.socket(socket.AF_UNIX)
    channel.connect(url.removeprefix("unix:"))
    return channel


def test_its_pulse_waits_for_nobody_who_says_nothing(proxy: Proxy) -> None:
    silent = [_connected(proxy.pulse) for _ in range(3)]
    begun = time.monotonic()
    assert drained.under_way(proxy.pulse) is not None
    # One after the other they would keep it for two seconds each.
    assert time.monotonic() - begun < 5
    for each in silent:
        each.close()


def test_its_pulse_says_how_many_requests_are_under_way(proxy: Proxy) -> None:
    pulse = proxy.pulse
    assert drained.under_way(pulse) == 0
    with ThreadPoolExecutor() as pool:
        asked = [pool.submit(proxy.chat, OWNER, "slow", 10, stream=True) for _ in range(3)]
        seen = 0
        while not all(each.done() for each in asked):
            seen = max(seen, drained.under_way(pulse) or 0)
        assert [each.result()[0] for each in asked] == [200] * 3
    assert seen == 3
    assert drained.under_way(pulse) == 0


def test_other_engines_are_taken_up_and_nothing_under_way_is_lost(proxy: Proxy) -> None:
    config = proxy.folder / "config.yaml"
    before = config.read_text()
    pulse = proxy.pulse
    assert drained.taken(pulse, hashlib.sha256(before.encode()).hexdigest(), 5)
    changed = yaml.safe_load(before)
    # Under another name, and a second engine that is not there.
    second = {**changed["model_list"][0]["litellm_params"], "api_base": "http://127.0.0.1:9/v1"}
    changed["model_list"].append({"model_name": "double", "litellm_params": second})
    changed["model_list"].append({**changed["model_list"][0], "model_name": "another"})
    changed["router_settings"] |= {"num_retries": 5, "retry_policy": {"DefaultRetries": 5}}
    text = yaml.safe_dump(changed)
    try:
        with ThreadPoolExecutor() as pool:
            asked = [pool.submit(proxy.chat, OWNER, "slow", 30, stream=True) for _ in range(4)]
            until(lambda: drained.under_way(pulse), 60)
            config.write_text(text)
            assert drained.taken(pulse, hashlib.sha256(text.encode()).hexdigest(), 5)
            assert [each.result()[0] for each in asked] == [200] * 4
        listed = json.loads(request(proxy.url, "GET", "/v1/models", OWNER)[2])["data"]
        assert sorted(each["id"] for each in listed) == ["another", "double"]
        assert [proxy.chat(OWNER)[0] for _ in range(8)] == [200] * 8, "the one that is not there is tried around"
        # What can't be read leaves the engines of before.
        config.write_text("model_list: [")
        assert not drained.taken(pulse, hashlib.sha256(b"model_list: [").hexdigest(), 5)
        assert proxy.chat(OWNER)[0] == 200
    finally:
        config.write_text(before)
        assert drained.taken(pulse, hashlib.sha256(before.encode()).hexdigest(), 5)
    assert proxy.chat(OWNER, model="another")[0] in (400, 404)


def test_what_it_has_loaded_is_looked_through_no_more_when_a_body_makes_many_objects(proxy: Proxy) -> None:
    """Each time it was 0.5 s of CPU in one piece."""
    assert drained.under_way(proxy.pulse) is not None
    proxy.processes[-1].send_signal(signal.SIGUSR2)
    frozen = proxy.told / "frozen"
    until(lambda: frozen.exists() and frozen.read_text(), 20)
    assert int(frozen.read_text()) > 100_000
