"""A talk in a terminal, with a proxy's double that streams."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest

from operations.command import talking
from tests.support.serving import Quiet, Server

KEY = "sk-1"


class ProxyDouble(Server):
    """Answers each question with its number, behind a thought."""

    def __init__(self) -> None:
        self.asked: list[dict[str, Any]] = []
        super().__init__(_Handler)


class _Handler(Quiet):
    server: ProxyDouble

    def do_POST(self) -> None:
        asked = self.sent()
        self.server.asked.append({"path": self.path, **asked})
        is_let_in = self.headers["Authorization"] == f"Bearer {KEY}"
        self.send_response(200 if is_let_in else 401)
        self.end_headers()
        if not is_let_in:
            self.wfile.write(json.dumps({"error": {"message": "this key opens nothing"}}).encode())
            return
        for delta in ({"reasoning_content": "hm"}, {"content": "answer "}, {"content": str(len(self.server.asked))}):
            self.wfile.write(f"data: {json.dumps({'choices': [{'delta': delta}]})}\n\n".encode())
        self.wfile.write(b'data: {"choices": []}\n\ndata: [DONE]\n\n')


@pytest.fixture
def proxy() -> Iterator[ProxyDouble]:
    server = ProxyDouble()
    yield server
    server.end()


def url(proxy: ProxyDouble) -> str:
    return f"http://127.0.0.1:{proxy.server_port}/v1"


def test_one_question_is_one_answer(proxy: ProxyDouble, capsys: pytest.CaptureFixture[str]) -> None:
    assert talking.talk(url(proxy), KEY, "nemotron", "Hello?") == 0
    assert capsys.readouterr().out == "answer 1\n"
    assert proxy.asked[0]["path"] == "/v1/chat/completions" and proxy.asked[0]["model"] == "nemotron"


def test_a_talk_knows_what_was_said_without_the_thoughts(
    proxy: ProxyDouble, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    typed = iter(["Hello?", "And now?", ""])
    monkeypatch.setattr("builtins.input", lambda _prompt: next(typed))
    assert talking.talk(url(proxy), KEY, "nemotron", "") == 0
    assert capsys.readouterr().out == "answer 1\nanswer 2\n"
    assert [each["content"] for each in proxy.asked[1]["messages"]] == ["Hello?", "answer 1", "And now?"]


@pytest.mark.parametrize(("key", "said"), [("sk-2", "this key opens nothing"), (KEY, "Connection refused")])
def test_what_goes_wrong_is_one_line(
    proxy: ProxyDouble, key: str, said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    where = url(proxy) if key != KEY else "http://127.0.0.1:1/v1"
    assert talking.talk(where, key, "nemotron", "Hello?") == 1
    err = capsys.readouterr().err
    assert said in err and err.endswith("`tandem status` says how it is\n") and len(err.splitlines()) == 1
