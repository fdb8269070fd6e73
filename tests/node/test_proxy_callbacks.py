"""LiteLLM's callbacks: streams that break are taken up, and who can't be answered is told when to come back.

LiteLLM is not among what the tests install: `FakeRouter` stands for its router, an empty class for its base class.
The real one is in the lab (tests/e2e, tests/chaos).
"""

from __future__ import annotations

import asyncio
import json
import socket
import sys
import threading
from collections.abc import AsyncIterator, Iterator, Sequence
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest

from tests.node.shipped import load


class FakeHTTPException(Exception):
    """What fastapi's has of interest."""

    def __init__(self, status: int, detail: str) -> None:
        self.status_code, self.detail = status, detail


class NoEngine(ValueError):
    """LiteLLM's RouterRateLimitError."""


class FakeRouter:
    """Answers with one prepared stream after the other, and keeps what it was asked."""

    def __init__(self, *streams: Sequence[Any]) -> None:
        self.streams, self.asked = list(streams), list[dict[str, Any]]()
        self.url = ""
        #: Engine -> when it failed.
        self.failed: dict[str, float] = {}
        self.cooldown_cache = self

    async def async_get_active_cooldowns(self, names: list[str], parent_otel_span: Any) -> list[tuple[str, Any]]:
        return [(name, {"timestamp": self.failed[name]}) for name in names if name in self.failed]

    async def acompletion(self, **body: Any) -> AsyncIterator[Any]:
        self.asked.append(body)
        return stream(self.streams.pop(0))

    def get_model_list(self, model_name: str) -> list[dict[str, Any]]:
        """Nobody is at home in the first engine."""
        urls = ("http://127.0.0.1:9/v1", self.url)
        return [
            {"model_name": model_name, "litellm_params": {"api_base": url}, "model_info": {"id": url}} for url in urls
        ]


async def answering(scope: Any, receive: Any, send: Any) -> None:
    """LiteLLM's application."""
    await send({"type": "http.response.start", "status": scope["status"], "headers": [(b"a", b"b")]})
    await send({"type": "http.response.body", "body": b"c"})


class FakeTokenizer(BaseHTTPRequestHandler):
    """An engine's /tokenize: every character is a token."""

    def do_POST(self) -> None:
        """`prompt` -> `count`."""
        asked = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        assert self.path == "/tokenize"
        self.send_response(200)
        self.end_headers()
        self.wfile.write(json.dumps({"count": len(asked["prompt"])}).encode())

    def log_message(self, format: str, *arguments: object) -> None:
        """Nothing."""


@pytest.fixture
def router(monkeypatch: pytest.MonkeyPatch) -> Iterator[FakeRouter]:
    names = ["litellm", "litellm.integrations", "litellm.types", "litellm.proxy", "litellm.llms"]
    fakes = {name: ModuleType(name) for name in names}
    fake = FakeRouter()
    leaves: dict[str, dict[str, Any]] = {
        "litellm.integrations.custom_logger": {"CustomLogger": object},
        "litellm.types.router": {"RouterRateLimitError": NoEngine, "RouterRateLimitErrorBasic": NoEngine},
        "litellm.proxy.proxy_server": {"llm_router": fake, "app": SimpleNamespace(middleware_stack=answering)},
        "litellm.llms.custom_httpx": {
            "http_handler": SimpleNamespace(build_aiohttp_keepalive_socket_factory=lambda: lambda _: socket.socket())
        },
        "fastapi": {"HTTPException": FakeHTTPException},
    }
    for name, content in leaves.items():
        fakes[name] = ModuleType(name)
        vars(fakes[name]).update(content)
    vars(fakes["litellm.proxy"])["proxy_server"] = fakes["litellm.proxy.proxy_server"]
    for name, module in fakes.items():
        monkeypatch.setitem(sys.modules, name, module)
    server = ThreadingHTTPServer(("127.0.0.1", 0), FakeTokenizer)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    fake.url = f"http://127.0.0.1:{server.server_port}/v1"
    yield fake
    server.shutdown()
    server.server_close()


def chunk(text: str = "", reason: str = "", **delta: Any) -> SimpleNamespace:
    parts = {"content": text, "reasoning_content": None, "tool_calls": None, "role": None} | delta
    choice = SimpleNamespace(delta=SimpleNamespace(**parts), finish_reason=reason or None)
    return SimpleNamespace(id=f"id-{text}", choices=[choice])


def usage(prompt: int, completion: int) -> SimpleNamespace:
    counts = SimpleNamespace(prompt_tokens=prompt, completion_tokens=completion)
    return SimpleNamespace(id="id-usage", choices=[], usage=counts)


async def stream(chunks: Sequence[Any]) -> AsyncIterator[Any]:
    for each in chunks:
        if isinstance(each, Exception):
            raise each
        yield each


def run(router: FakeRouter, body: dict[str, Any], *streams: Sequence[Any]) -> list[Any]:
    """What the client gets; the first stream is the answer, the others are what the router gives afterwards."""
    router.streams = list(streams[1:])
    data = {"model": body["model"], "proxy_server_request": {"body": body}}
    callback = load("litellm/resume.py").callback

    async def collect() -> list[Any]:
        return [c async for c in callback.async_post_call_streaming_iterator_hook(None, stream(streams[0]), data)]

    return asyncio.run(collect())


def text_of(chunks: Sequence[Any]) -> str:
    return "".join(c.choices[0].delta.content or "" for c in chunks if c.choices)


ASKED = {"model": "m", "messages": [{"role": "user", "content": "Hi"}], "max_tokens": 10, "stream": True}
GONE = ConnectionError("gone")


def test_a_stream_that_ends_well_is_passed_on(router: FakeRouter) -> None:
    got = run(router, ASKED, [chunk("a"), chunk("b", "stop"), usage(5, 2)])
    assert text_of(got) == "ab"
    assert got[2].usage.completion_tokens == 2
    assert router.asked == []


def test_a_stream_that_breaks_goes_on_from_another_engine(router: FakeRouter) -> None:
    first = [chunk("", role="assistant"), chunk("a"), chunk("b"), GONE]
    got = run(router, ASKED, first, [chunk("c"), chunk("d", "length"), usage(7, 8)])
    assert text_of(got) == "abcd"
    assert {each.id for each in got if each.choices} == {"id-"}
    assert (got[-1].usage.prompt_tokens, got[-1].usage.completion_tokens) == (5, 10)
    (asked,) = router.asked
    assert asked["messages"] == [*ASKED["messages"], {"role": "assistant", "content": "ab"}]  # type: ignore[misc]
    assert asked["continue_final_message"] is True and asked["add_generation_prompt"] is False
    assert asked["max_tokens"] == 8


def test_tokens_are_counted_by_an_engine_because_one_piece_may_hold_several(router: FakeRouter) -> None:
    got = run(router, ASKED, [chunk("abc"), chunk("de"), GONE], [chunk("fghij", "length"), usage(9, 5)])
    assert text_of(got) == "abcdefghij"
    assert router.asked[0]["max_tokens"] == 5
    assert (got[-1].usage.prompt_tokens, got[-1].usage.completion_tokens) == (4, 10)


def test_it_can_break_again_and_again_but_not_for_ever(router: FakeRouter) -> None:
    got = run(router, ASKED, [chunk("a"), GONE], [chunk("b"), GONE], [chunk("c", "stop")])
    assert text_of(got) == "abc"
    with pytest.raises(ConnectionError):
        run(router, ASKED, *([chunk("a"), GONE] for _ in range(5)))


def test_what_had_not_begun_begins_anew(router: FakeRouter) -> None:
    got = run(router, ASKED, [GONE], [chunk("a", "stop")])
    assert text_of(got) == "a"
    assert router.asked == [ASKED]


def test_thoughts_begin_anew_and_the_answer_behind_them_is_whole(router: FakeRouter) -> None:
    got = run(router, ASKED, [chunk(reasoning_content="hm"), GONE], [chunk(reasoning_content="so"), chunk("a", "stop")])
    assert text_of(got) == "a"
    assert router.asked == [ASKED]


def test_a_parser_that_takes_the_middle_of_an_answer_for_thoughts_is_put_right(router: FakeRouter) -> None:
    got = run(
        router,
        ASKED,
        [chunk("a"), GONE],
        [chunk(reasoning_content="b"), chunk(reasoning_content="c"), chunk("d", "stop")],
    )
    assert text_of(got) == "abcd"


def test_half_a_tool_call_is_not_the_client_s(router: FakeRouter) -> None:
    half, whole = chunk(tool_calls=["half"]), chunk(tool_calls=["whole"])
    got = run(router, ASKED, [half, GONE], [whole, chunk("", "tool_calls")])
    assert [each.choices[0].delta.tool_calls for each in got] == [["whole"], None]


def test_an_assistant_s_beginning_of_the_client_s_own_is_continued(router: FakeRouter) -> None:
    begun = [{"role": "user", "content": "Hi"}, {"role": "assistant", "content": "It "}]
    body = {**ASKED, "messages": begun, "continue_final_message": True, "add_generation_prompt": False}
    assert text_of(run(router, body, [chunk("is"), GONE], [chunk(" so", "stop")])) == "is so"
    assert router.asked[0]["messages"][-1]["content"] == "It is"
    assert begun[-1]["content"] == "It "


@pytest.mark.parametrize(
    "more",
    [{"n": 2}, {"response_format": {"type": "json_object"}}, {"structured_outputs": {"regex": "a"}}],
    ids=lambda more: next(iter(more)),
)
def test_what_can_t_be_continued_ends_as_it_broke(router: FakeRouter, more: dict[str, Any]) -> None:
    with pytest.raises(ConnectionError):
        run(router, {**ASKED, **more}, [chunk("a"), GONE])


def test_an_answer_that_was_complete_is_not_asked_for_again(router: FakeRouter) -> None:
    with pytest.raises(ConnectionError):
        run(router, ASKED, [chunk("a", "stop"), GONE])
    assert router.asked == []


def away(error: Exception, data: dict[str, Any]) -> Any:
    callback = load("litellm/unavailable.py").callback
    return asyncio.run(callback.async_post_call_failure_hook(data, error, None))


def test_without_an_engine_clients_are_told_when_to_come_back(router: FakeRouter) -> None:
    kinds: list[Any] = [NoEngine, type("APIConnectionError", (Exception,), {}), type("Timeout", (Exception,), {})]
    for kind in kinds:
        error = kind()
        told = away(error, {})
        assert told.status_code == 503
        # Of a stream whose first token never came LiteLLM asks the error itself.
        assert (error.status_code, error.message) == (503, told.detail)


@pytest.mark.parametrize(("status", "told"), [(200, []), (500, []), (503, [(b"retry-after", b"30")])])
def test_who_is_told_503_is_told_when_to_come_back(
    router: FakeRouter, status: int, told: list[tuple[bytes, bytes]]
) -> None:
    load("litellm/unavailable.py")
    sent: list[dict[str, Any]] = []

    async def send(message: dict[str, Any]) -> None:
        sent.append(message)

    asyncio.run(sys.modules["litellm.proxy.proxy_server"].app.middleware_stack({"status": status}, None, send))
    assert sent == [
        {"type": "http.response.start", "status": status, "headers": [(b"a", b"b"), *told]},
        {"type": "http.response.body", "body": b"c"},
    ]


def test_a_client_s_own_mistake_and_a_stream_that_has_begun_stay_as_they_are(router: FakeRouter) -> None:
    assert away(type("BadRequestError", (Exception,), {})(), {}) is None
    assert away(NoEngine(), {"tandem_has_begun": True}) is None


def test_an_engine_in_its_cooldown_is_better_than_none(router: FakeRouter) -> None:
    callback = load("litellm/last_resort.py").callback
    healthy = [{"id": "a"}]
    assert asyncio.run(callback.async_filter_deployments("m", healthy, None)) == healthy
    first, second = (engine["model_info"]["id"] for engine in router.get_model_list("m"))
    for failed, chosen in (
        ({first: 30.0, second: 10.0}, second),
        ({first: 10.0, second: 30.0}, first),
        # Its cooldown has ended between two looks.
        ({first: 10.0}, second),
    ):
        router.failed = failed
        (engine,) = asyncio.run(callback.async_filter_deployments("m", [], None))
        assert engine["model_info"]["id"] == chosen


def test_a_connection_to_an_engine_is_broken_when_nothing_is_acknowledged(router: FakeRouter) -> None:
    links = load("litellm/links.py")
    with links.http_handler.build_aiohttp_keepalive_socket_factory()(None) as connection:
        assert connection.getsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT) == links.SILENCE_MS


def test_an_answer_that_has_all_its_tokens_is_ended_and_not_continued(router: FakeRouter) -> None:
    got = run(router, {**ASKED, "max_tokens": 2}, [chunk("a"), chunk("b"), GONE])
    assert text_of(got) == "ab"
    assert got[-1].choices[0].finish_reason == "length"
    assert router.asked == []


def test_a_piece_of_a_text_passes_as_it_is(router: FakeRouter) -> None:
    """/v1/completions: its choices have a text and no delta."""
    pieces = [SimpleNamespace(id="i", choices=[SimpleNamespace(text=text, finish_reason=None)]) for text in "ab"]
    body = {"model": "m", "prompt": "Hi", "stream": True}
    assert run(router, body, pieces) == pieces
    with pytest.raises(ConnectionError):
        run(router, body, [pieces[0], GONE])
