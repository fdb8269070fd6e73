"""The door before LiteLLM's application: who may ask, what, how much, and what is written down of it.

LiteLLM is not among what the tests install: an application of three routes stands for it, empty classes for its own.
tests/node/test_door_litellm.py asks the real one.
"""

from __future__ import annotations

import asyncio
import hashlib
import json
import logging
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest

from tests.node.shipped import load, part
from tests.node.strangers import in_openai_form

part("proxy", "door_keys")
CHAT = ("POST", "/v1/chat/completions")


class FakeHTTPException(Exception):
    """What fastapi's has of interest."""

    def __init__(self, status_code: int, detail: str) -> None:
        self.status_code, self.detail = status_code, detail


class FakeApplication:
    """Answers what it is told to, and keeps what it was asked."""

    def __init__(self) -> None:
        self.asked: list[dict[str, Any]] = []
        self.parts: list[bytes] = [b'{"usage":{"total_tokens":7}}']
        self.kind, self.status = b"application/json", 200
        self.before: Callable[[], Any] = lambda: None
        self.at_once: Callable[[], Any] = lambda: None

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        self.asked.append(scope)
        self.at_once()
        await send({"type": "http.response.start", "status": self.status, "headers": [(b"content-type", self.kind)]})
        for number, body in enumerate(self.parts):
            result = self.before()
            if asyncio.iscoroutine(result):
                await result
            await send({"type": "http.response.body", "body": body, "more_body": number < len(self.parts) - 1})


class Outcome:
    """What a client gets."""

    def __init__(self) -> None:
        self.status, self.headers, self.parts = 0, dict[bytes, bytes](), list[bytes]()

    async def send(self, message: Any) -> None:
        if message["type"].endswith(".start"):
            assert not self.status
            self.status, self.headers = message["status"], dict(message["headers"])
        else:
            self.parts.append(message["body"])

    @property
    def body(self) -> bytes:
        return b"".join(self.parts)


class Setup:
    """A door, what stands behind it, and its folders."""

    def __init__(self, module: Any, application: FakeApplication, folder: Path) -> None:
        self.module, self.application, self.folder = module, application, folder
        self.door = module.Door(application, "sk-owner", folder, folder)

    def key(self, name: str, **more: Any) -> None:
        """There is a key `sk-NAME`."""
        file = self.folder / "keys.json"
        keys = json.loads(file.read_text()) if file.exists() else {}
        plain = {"made": 1.0, "expires": None, "requests": None, "tokens": None}
        keys[name] = {"hash": hashlib.sha256(f"sk-{name}".encode()).hexdigest(), **plain, **more}
        file.with_suffix(".part").write_text(json.dumps(keys))
        file.with_suffix(".part").replace(file)

    async def ask(self, key: str | None, method: str = "POST", path: str = CHAT[1], **more: Any) -> Outcome:
        """One request; `headers` are more of them."""
        headers = [
            *([(b"authorization", f"Bearer {key}".encode())] if key is not None else []),
            *more.pop("headers", []),
        ]
        scope = {"type": "http", "method": method, "path": path, "query_string": b"", "client": ("10.0.0.9", 1)}
        outcome = Outcome()

        async def receive() -> Any:
            return {"type": "http.request", "body": b"", "more_body": False}

        await self.door({**scope, "headers": headers, **more}, receive, outcome.send)
        return outcome

    def once(self, key: str | None, method: str = "POST", path: str = CHAT[1], **more: Any) -> Outcome:
        """The same, by itself."""
        return asyncio.run(self.ask(key, method, path, **more))


@pytest.fixture
def setup(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[Setup]:
    monkeypatch.setenv("LITELLM_MASTER_KEY", "sk-owner")
    monkeypatch.delitem(sys.modules, "door_body", raising=False)
    fakes = {name: ModuleType(name) for name in ("litellm", "litellm.integrations", "litellm.proxy", "fastapi")}
    fakes["litellm.integrations.custom_logger"] = ModuleType("custom_logger")
    vars(fakes["litellm.integrations.custom_logger"])["CustomLogger"] = object
    vars(fakes["fastapi"])["HTTPException"] = FakeHTTPException
    application = FakeApplication()
    router = SimpleNamespace(model_names=["m"])
    fake = SimpleNamespace(app=SimpleNamespace(middleware_stack=application), llm_router=router)
    vars(fakes["litellm.proxy"])["proxy_server"] = fake
    for name, module in fakes.items():
        monkeypatch.setitem(sys.modules, name, module)
    factory, access = logging.getLogRecordFactory(), logging.getLogger("uvicorn.access").disabled
    filters = list(logging.getLogger("uvicorn.error").filters)
    yield Setup(load("proxy/door.py"), application, tmp_path)
    logging.setLogRecordFactory(factory)
    logging.getLogger("uvicorn.access").disabled = access
    logging.getLogger("uvicorn.error").filters = filters


def test_it_stands_before_the_application(setup: Setup) -> None:
    assert isinstance(setup.module.proxy_server.app.middleware_stack, setup.module.Door)


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
    for path in ("chat/completions", "completions", "embeddings", "rerank"):
        assert setup.once("sk-alice", "POST", f"{version}/{path}").status == 200
        assert setup.once("sk-alice", "GET", f"{version}/{path}").status == 404
    for path in ("models", "models/m"):
        assert setup.once("sk-alice", "GET", f"{version}/{path}").status == 200
        assert setup.once("sk-alice", "POST", f"{version}/{path}").status == 404


#: What clients have no business with, and ways around a list.
ELSEWHERE = """
/ /key/generate /model/info /config/yaml /health /metrics /routes /v1/responses /ui /v1/chat/completions/ //v1/models *
/V1/models /v1/models/ /v1/models/a/b /v3/rerank /v1/chat/completions/../../key/generate /v1/models/../.. /v1/v1/models
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


def test_requests_at_once_are_limited_and_free_when_they_end_however(setup: Setup) -> None:
    setup.key("alice", requests=2)
    setup.key("bob", requests=1)

    async def both() -> None:
        gate = asyncio.Event()
        setup.application.before = gate.wait
        two = [asyncio.create_task(setup.ask("sk-alice")) for _ in range(2)]
        await asyncio.sleep(0)
        refused = await setup.ask("sk-alice")
        assert refused.status == 429 and refused.headers[b"retry-after"] == b"1"
        error = in_openai_form(refused.body)
        assert (error["type"], error["code"]) == ("requests", "rate_limit_exceeded")
        other = asyncio.create_task(setup.ask("sk-bob"))
        await asyncio.sleep(0)
        # One client goes away.
        two[0].cancel()
        await asyncio.gather(two[0], return_exceptions=True)
        third = asyncio.create_task(setup.ask("sk-alice"))
        await asyncio.sleep(0)
        gate.set()
        assert [(await task).status for task in (two[1], other, third)] == [200, 200, 200]

    asyncio.run(both())


def at(monkeypatch: pytest.MonkeyPatch, setup: Setup, now: float) -> None:
    """The clock of the door."""
    clock = SimpleNamespace(monotonic=lambda: now, time=time.time)
    monkeypatch.setattr(setup.module, "time", clock)


def test_tokens_a_minute_are_what_the_engine_has_counted(setup: Setup, monkeypatch: pytest.MonkeyPatch) -> None:
    setup.key("alice", tokens=10)
    # 7 of 10, then 14 of 10.
    for now, status in ((100.0, 200), (130.0, 200), (131.0, 429)):
        at(monkeypatch, setup, now)
        got = setup.once("sk-alice")
        assert got.status == status
    error = in_openai_form(got.body)
    assert (error["type"], error["code"]) == ("tokens", "rate_limit_exceeded")
    assert error["message"] == "`alice` has used 14 tokens in a minute, and may use 10"
    # When the first is a minute old.
    assert got.headers[b"retry-after"] == b"29"
    at(monkeypatch, setup, 160.0)
    assert setup.once("sk-alice").status == 200


def test_a_stream_counts_while_it_runs(setup: Setup) -> None:
    setup.key("alice", tokens=5)
    setup.application.kind = b"text/event-stream; charset=utf-8"
    setup.application.parts = [b'data: {"choices":[{}]}\n\n'] * 6

    async def look() -> None:
        seen: list[int] = []

        async def other() -> None:
            if len(seen) < 6:
                seen.append(0)
                setup.application.before = lambda: None
                parts, setup.application.parts = setup.application.parts, []
                seen[-1] = (await setup.ask("sk-alice")).status
                setup.application.parts, setup.application.before = parts, other

        setup.application.before = other
        await setup.ask("sk-alice")
        # Before each piece, and behind the fifth it is too much.
        assert seen == [200, 200, 200, 200, 200, 429]

    asyncio.run(look())


def usage(total: int) -> bytes:
    """The last event but one of a stream that says what it cost."""
    return b'data: {"choices":[],"usage":{"prompt_tokens":1,"total_tokens":%d}}\n\n' % total


EVENTS = [b'data: {"choices":[{"delta":{"content":"a"}}]}\n\n', b'data: {"choices":[{"finish_reason":"stop"}]}\n\n']
END = b"data: [DONE]\n\n"


#: As an engine has it, and as LiteLLM hands it on, of a chat and of a text.
COSTS = [
    b'"choices":[]',
    b'"choices":[{"index":0,"delta":{}}]',
    b'"choices":[{"index":0}]',
    b'"choices":[{"index":0,"text":""}]',
]


@pytest.mark.parametrize("choices", COSTS, ids=len)
@pytest.mark.parametrize("hides", [True, False])
@pytest.mark.parametrize("cut", [0, 1, 7, 60, 10_000])
def test_what_a_stream_cost_is_read_and_hidden_from_who_did_not_ask(
    setup: Setup, hides: bool, cut: int, choices: bytes
) -> None:
    """However its bytes are cut into pieces."""
    cost = usage(42).replace(b'"choices":[]', choices)
    text = b"".join(EVENTS) + cost + END
    parts = [text[i : i + cut] for i in range(0, len(text), cut)] if cut else [*EVENTS, cost, END]
    visit = part("proxy", "door_limits").Visit(part("proxy", "door_keys").Key("a", "h"), hides_usage=hides)
    answer = part("proxy", "door_usage").Answer(visit, b"text/event-stream")
    got = b"".join(answer.pass_on(each, number < len(parts) - 1) for number, each in enumerate(parts))
    assert got == (text.replace(cost, b"") if hides else text)
    assert visit.tokens == 42


def test_a_stream_that_ends_early_costs_what_has_passed(setup: Setup) -> None:
    visit = part("proxy", "door_limits").Visit(part("proxy", "door_keys").Key("a", "h"), asked=100)
    answer = part("proxy", "door_usage").Answer(visit, b"text/event-stream")
    assert visit.tokens == 0
    assert answer.pass_on(EVENTS[0] + EVENTS[0] + EVENTS[1][:9], True) == EVENTS[0] * 2
    assert answer.pass_on(b"", False) == EVENTS[1][:9]
    assert visit.tokens == 102


@pytest.mark.parametrize(
    ("text", "tokens"),
    [
        (b'{"choices":[{"text":"\\"usage\\":{\\"total_tokens\\":1}"}],"usage":{"total_tokens":9,"x":{"y":1}}}', 9),
        (b'{"usage":{"prompt_tokens":3,"completion_tokens":4},"z":1}', 7),
        (b'{"results":[],"meta":{"billed_units":{"total_tokens":5},"tokens":{"input_tokens":5}}}', 5),
        (b'{"usage":null}', 0),
        (b'{"usage":{"total_tokens":"many"}}', 0),
        (b'{"usage":', 0),
        (b"", 0),
    ],
)
def test_what_an_answer_cost_is_read_from_it(setup: Setup, text: bytes, tokens: int) -> None:
    visit = part("proxy", "door_limits").Visit(part("proxy", "door_keys").Key("a", "h"))
    answer = part("proxy", "door_usage").Answer(visit, b"application/json")
    assert answer.pass_on(text, False) == text
    assert visit.tokens == tokens


def test_a_last_piece_that_says_what_it_cost_is_no_less_a_piece(setup: Setup) -> None:
    visit = part("proxy", "door_limits").Visit(part("proxy", "door_keys").Key("a", "h"), hides_usage=True)
    answer = part("proxy", "door_usage").Answer(visit, b"text/event-stream")
    for choice in (b'{"delta":{"content":"a"}}', b'{"text":"a"}', b'{"delta":{},"finish_reason":"stop"}'):
        event = usage(42).replace(b'"choices":[]', b'"choices":[%s]' % choice)
        assert answer.pass_on(event, True) == event
    assert visit.tokens == 42


def before(setup: Setup, data: dict[str, Any], key: str = "sk-alice") -> None:
    """What LiteLLM asks the callback with this body, in the midst of a request of this key."""
    callback = setup.module.callback

    async def hook() -> None:
        assert await callback.async_pre_call_hook(None, None, data, "acompletion") is data

    setup.application.before = hook
    setup.once(key)


def test_an_engine_is_asked_what_a_stream_costs(setup: Setup) -> None:
    setup.key("alice")
    setup.application.kind, setup.application.parts = b"text/event-stream", [*EVENTS, usage(3), END]
    body = {"model": "m", "stream": True, "stream_options": {"x": 1}}
    data: dict[str, Any] = {**body, "proxy_server_request": {"body": dict(body)}}
    before(setup, data)
    assert data["stream_options"] == {"x": 1, "include_usage": True}
    assert data["proxy_server_request"]["body"]["stream_options"]["include_usage"]
    # LiteLLM has asked by itself, and would keep what it hears from the door as well.
    data = {"model": "m", "stream": True, "stream_options": {"include_usage": True}}
    data["_litellm_strip_stream_usage"] = True
    before(setup, data)
    assert data["_litellm_strip_stream_usage"] is False
    data = {"model": "m"}
    before(setup, data)
    assert data == {"model": "m"}


@pytest.mark.parametrize("key", ["sk-alice", "sk-owner"])
def test_a_client_s_body_sends_a_request_nowhere_else(setup: Setup, key: str) -> None:
    setup.key("alice")
    wrong: list[dict[str, Any]] = [{"model": "n"}, {"model": "m,m"}, {"model": "m", "fallbacks": ["n"]}]
    wrong += [
        {"model": "m", "api_key": "k"},
        {"model": "m", "custom_llm_provider": "x"},
        {"model": "m", "num_retries": 9},
    ]
    for data in wrong:
        if key == "sk-owner":
            before(setup, data, key)
            continue
        with pytest.raises(FakeHTTPException) as refused:
            before(setup, data, key)
        assert refused.value.status_code in (400, 404)


def test_who_asked_is_in_the_log_and_neither_key_nor_path_nor_query(
    setup: Setup, capsys: pytest.CaptureFixture[str]
) -> None:
    setup.key("alice")
    setup.once("sk-alice", query_string=b"key=sk-query")
    setup.once("sk-alice", "GET", "/v1/models/sk-model")
    setup.once("sk-alice", "GET", "/sk-path")
    setup.once("sk-wrong")
    lines = capsys.readouterr().out.splitlines()
    assert [line.partition(", ")[0] for line in lines] == [
        "tandem: alice: POST /v1/chat/completions: 200",
        "tandem: alice: GET /v1/models/...: 200",
        "tandem: alice: GET another route: 404",
        "tandem: nobody: POST /v1/chat/completions: 401",
    ]
    assert lines[0].endswith("7 tokens, from 10.0.0.9") and "sk-" not in "".join(lines)


def test_a_request_that_breaks_is_in_the_log_and_counted(setup: Setup, capsys: pytest.CaptureFixture[str]) -> None:
    def breaks() -> None:
        raise ConnectionError

    setup.application.before = breaks
    with pytest.raises(ConnectionError):
        setup.once("sk-owner")
    assert "tandem: owner: POST /v1/chat/completions: 200" in capsys.readouterr().out


def test_an_error_that_litellm_lets_pass_gets_openai_s_form(setup: Setup, capsys: pytest.CaptureFixture[str]) -> None:
    def breaks() -> None:
        raise ImportError("the prompt")

    setup.application.at_once = breaks
    got = setup.once("sk-owner")
    assert got.status == 500 and in_openai_form(got.body)["type"] == "server_error"
    said = capsys.readouterr().out
    assert "an error of its own pass: ImportError\n" in said and "owner: POST /v1/chat/completions: 500" in said
    assert "prompt" not in said


def read(setup: Setup) -> Any:
    """What is kept of the keys' use, once it is written."""
    for _ in range(200):
        if (setup.folder / "used.json").exists():
            return json.loads((setup.folder / "used.json").read_text())
        time.sleep(0.05)
    raise AssertionError("nothing is written")


def test_what_each_key_has_used_is_kept(setup: Setup) -> None:
    setup.key("alice")
    for key in ("sk-alice", "sk-alice", "sk-owner", "sk-wrong"):
        setup.once(key)
    alice = hashlib.sha256(b"sk-alice").hexdigest()[:16]
    kept = {name: (use["requests"], use["tokens"]) for name, use in read(setup).items()}
    assert kept == {alice: (2, 14), "owner": (1, 7)}
    assert (setup.folder / "used.json").stat().st_mode & 0o777 == 0o600


def test_several_proxies_add_to_one_count_and_a_revoked_key_leaves_it(tmp_path: Path) -> None:
    counts = part("proxy", "door_counts")
    known = {"a", "b"}
    several = [counts.Counts(tmp_path / "used.json", lambda: known) for _ in range(3)]
    for each in several:
        each.add("a", 5)
        each.add("b", 1)
        each.flush()
    assert {name: use["tokens"] for name, use in counts.read(tmp_path / "used.json").items()} == {"a": 15, "b": 3}
    known.discard("b")
    several[0].add("a", 1)
    several[0].flush()
    assert list(counts.read(tmp_path / "used.json")) == ["a"]


def test_a_count_that_can_t_be_written_is_kept_until_it_can(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    counts = part("proxy", "door_counts")
    kept = counts.Counts(tmp_path / "away/used.json", lambda: {"a"})
    kept.add("a", 5)
    with pytest.raises(OSError):
        kept.flush()
    (tmp_path / "away").mkdir()
    kept.add("a", 5)
    kept.flush()
    assert counts.read(tmp_path / "away/used.json")["a"]["tokens"] == 10


def test_the_log_has_no_words_of_an_error(setup: Setup, caplog: pytest.LogCaptureFixture) -> None:
    try:
        try:
            raise ValueError("the prompt")
        except ValueError as error:
            raise OSError("the prompt again") from error
    except OSError as error:
        logging.getLogger("LiteLLM Proxy").exception("an engine says %s", error)
        logging.getLogger("LiteLLM").error(f"it says {error}")
    logging.getLogger("LiteLLM").warning("the prompt")
    logging.getLogger("uvicorn.error").setLevel("INFO")
    logging.getLogger("uvicorn.error").info('%s - "WebSocket %s" %d', "10.0.0.9", "/?key=sk-query", 401)
    logging.getLogger("uvicorn.error").info("Started server process [%d]", 7)
    said = [record.getMessage() for record in caplog.records]
    assert said == ["OSError from ValueError"] * 2 + ["a warning", "Started server process [7]"]
    assert "prompt" not in caplog.text and "sk-query" not in caplog.text
