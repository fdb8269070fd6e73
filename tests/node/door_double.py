"""A door before a double of LiteLLM's application, for the tests of files/litellm/door*.py.

LiteLLM is not among what the tests install: empty classes stand for its own.
"""

from __future__ import annotations

import asyncio
import hashlib
import json
import logging
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest

from tests.node.shipped import load, part

part("litellm", "door_keys")
CHAT = ("POST", "/v1/chat/completions")


class FakeHTTPException(Exception):
    """What fastapi's has of interest."""

    def __init__(self, status_code: int, detail: str) -> None:
        self.status_code, self.detail = status_code, detail


class FakeApplication:
    """Answers what it is told to, and keeps what it was asked."""

    def __init__(self) -> None:
        self.asked: list[dict[str, Any]] = []
        self.read = 0
        self.parts: list[bytes] = [b'{"usage":{"total_tokens":7}}']
        self.kind, self.status = b"application/json", 200
        #: Reads the body first, as LiteLLM does.
        self.reads = False
        self.before: Callable[[], Any] = lambda: None
        self.at_once: Callable[[], Any] = lambda: None

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        self.asked.append(scope)
        self.at_once()
        # An engine has the question: LiteLLM's callback says so, and who goes past it.
        part("litellm", "door_body").has_asked()
        while self.reads and (message := await receive())["type"] == "http.request" and message["more_body"]:
            self.read += len(message["body"])
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
        """One request; `headers` are more of them, `chunks` its body."""
        headers = [
            *([(b"authorization", f"Bearer {key}".encode())] if key is not None else []),
            *more.pop("headers", []),
        ]
        scope = {"type": "http", "method": method, "path": path, "query_string": b"", "client": ("10.0.0.9", 1)}
        outcome, chunks = Outcome(), iter(more.pop("chunks", []))

        async def receive() -> Any:
            chunk = next(chunks, b"")
            return {"type": "http.request", "body": chunk, "more_body": bool(chunk)}

        await self.door({**scope, "headers": headers, **more}, receive, outcome.send)
        return outcome

    def once(self, key: str | None, method: str = "POST", path: str = CHAT[1], **more: Any) -> Outcome:
        """The same, by itself."""
        return asyncio.run(self.ask(key, method, path, **more))


@pytest.fixture(name="setup")
def a_door(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[Setup]:
    monkeypatch.setenv("LITELLM_MASTER_KEY", "sk-owner")
    monkeypatch.setenv("TANDEM_SECRETS", str(tmp_path / "secrets"))
    monkeypatch.delitem(sys.modules, "door_body", raising=False)
    fakes = {name: ModuleType(name) for name in ("litellm", "litellm.integrations", "litellm.proxy", "fastapi")}
    fakes["litellm.integrations.custom_logger"] = ModuleType("custom_logger")
    vars(fakes["litellm.integrations.custom_logger"])["CustomLogger"] = object
    vars(fakes["fastapi"])["HTTPException"] = FakeHTTPException
    application = FakeApplication()
    router = SimpleNamespace(model_names=["m"])
    fake = SimpleNamespace(llm_router=router)
    vars(fakes["litellm.proxy"])["proxy_server"] = fake
    for name, module in fakes.items():
        monkeypatch.setitem(sys.modules, name, module)
    factory, access = logging.getLogRecordFactory(), logging.getLogger("uvicorn.access").disabled
    filters = list(logging.getLogger("uvicorn.error").filters)
    part("litellm", "door_log").install()
    yield Setup(load("litellm/door.py"), application, tmp_path)
    logging.setLogRecordFactory(factory)
    logging.getLogger("uvicorn.access").disabled = access
    logging.getLogger("uvicorn.error").filters = filters


def usage(total: int) -> bytes:
    """The last event but one of a stream that says what it cost."""
    return b'data: {"choices":[],"usage":{"prompt_tokens":1,"total_tokens":%d}}\n\n' % total


EVENTS = [b'data: {"choices":[{"delta":{"content":"a"}}]}\n\n', b'data: {"choices":[{"finish_reason":"stop"}]}\n\n']
END = b"data: [DONE]\n\n"
