"""LiteLLM's callbacks: who can't be answered is told when to come back, and a failed engine is better than none.

LiteLLM is not among what the tests install: `FakeRouter` stands for its router, an empty class for its base class.
The real one is in the lab (tests/e2e, tests/chaos).
"""

from __future__ import annotations

import asyncio
import socket
import sys
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest

from tests.node.shipped import load, part


class FakeHTTPException(Exception):
    """What fastapi's has of interest."""

    def __init__(self, status: int, detail: str) -> None:
        self.status_code, self.detail = status, detail


class NoEngine(ValueError):
    """LiteLLM's RouterRateLimitError."""


class FakeRouter:
    """Two engines."""

    def __init__(self) -> None:
        #: Engine -> when it failed.
        self.failed: dict[str, float] = {}
        self.cooldown_cache = self

    async def async_get_active_cooldowns(self, names: list[str], parent_otel_span: Any) -> list[tuple[str, Any]]:
        return [(name, {"timestamp": self.failed[name]}) for name in names if name in self.failed]

    def get_model_list(self, model_name: str) -> list[dict[str, Any]]:
        return [
            {"model_name": model_name, "model_info": {"id": name}, "litellm_params": {"api_base": name}}
            for name in "ab"
        ]


async def answering(scope: Any, receive: Any, send: Any) -> None:
    """LiteLLM's application."""
    await send({"type": "http.response.start", "status": scope["status"], "headers": [(b"a", b"b")]})
    await send({"type": "http.response.body", "body": b"c"})


@pytest.fixture
def router(monkeypatch: pytest.MonkeyPatch) -> FakeRouter:
    names = ["litellm", "litellm.integrations", "litellm.types", "litellm.proxy", "litellm.llms"]
    fakes = {name: ModuleType(name) for name in names}
    fake = FakeRouter()
    leaves: dict[str, dict[str, Any]] = {
        "litellm.integrations.custom_logger": {"CustomLogger": object},
        "litellm.types.router": {"RouterRateLimitError": NoEngine, "RouterRateLimitErrorBasic": NoEngine},
        "litellm.proxy.proxy_server": {"llm_router": fake},
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
    return fake


def away(error: Exception) -> Any:
    part("litellm", "door_answers")
    callback = load("litellm/unavailable.py").callback
    return asyncio.run(callback.async_post_call_failure_hook({}, error, None))


def test_without_an_engine_clients_are_told_when_to_come_back(router: FakeRouter) -> None:
    kinds: list[Any] = [NoEngine, type("APIConnectionError", (Exception,), {}), type("Timeout", (Exception,), {})]
    for kind in kinds:
        error = kind()
        told = away(error)
        assert told.status_code == 503
        # Of a stream whose first token never came LiteLLM asks the error itself.
        assert (error.status_code, error.message) == (503, told.detail)


@pytest.mark.parametrize(("status", "told"), [(200, []), (500, []), (503, [(b"retry-after", b"2")])])
def test_who_is_told_503_is_told_when_to_come_back(
    router: FakeRouter, status: int, told: list[tuple[bytes, bytes]]
) -> None:
    part("litellm", "door_answers")
    application = load("litellm/unavailable.py").WithRetryAfter(answering)
    sent: list[dict[str, Any]] = []

    async def send(message: dict[str, Any]) -> None:
        sent.append(message)

    asyncio.run(application({"status": status}, None, send))
    assert sent == [
        {"type": "http.response.start", "status": status, "headers": [(b"a", b"b"), *told]},
        {"type": "http.response.body", "body": b"c"},
    ]


def test_a_client_s_own_mistake_stays_as_it_is(router: FakeRouter) -> None:
    assert away(type("BadRequestError", (Exception,), {})()) is None


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
    links.give_up_behind_a_cut_rail()
    with links.http_handler.build_aiohttp_keepalive_socket_factory()(None) as connection:
        assert connection.getsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT) == links.SILENCE_MS
