"""A stream says that it lives: the real LiteLLM over an engine that is silent for a while. And sounds, in words."""

from __future__ import annotations

import http.client
import json
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from typing import Any
from urllib.parse import urlsplit

import pytest

from tests.bench.routing import doors
from tests.node.confined import contained, place
from tests.node.test_passthrough_litellm import DONE
from tests.node.test_passthrough_litellm import event as chunk
from tests.node.test_protocols_litellm import COMPLETED, CREATED, DELTA, MESSAGES, RESPONSES, START, STOP, TEXT
from tests.support.serving import Quiet, serving

pytestmark = pytest.mark.skipif(not doors.LITELLM.exists(), reason="no LiteLLM here: `make venv-proxy` installs it")

#: Seconds after which a stream says that it lives, here; and what an engine waits.
ALIVE_S, SILENT_S = 0.5, 1.8
CHAT = {"model": "double", "messages": [{"role": "user", "content": "Hi"}]}
COMMENT, PING = b": it lives\n\n", b'event: ping\ndata: {"type": "ping"}\n\n'
KEEPALIVE = b'event: keepalive\ndata: {"type": "keepalive"}\n\n'
FORM = b'--xxxxxxxx\r\nContent-Disposition: form-data; name="file"; filename="a"\r\n\r\n[[[,,,\r\n'
FORM += b'--xxxxxxxx\r\nContent-Disposition: form-data; name="model"\r\n\r\n%s\r\n--xxxxxxxx--\r\n'


class SilentDouble(Quiet):
    """An engine that waits between the parts of its answer; `waits`: before its headers as well."""

    status, parts, waits = 200, list[bytes](), False
    #: The parts of the next answer, by another engine.
    then = list[bytes]()
    asked = list[bytes]()

    def do_POST(self) -> None:
        """What lies ready."""
        self.asked.append(self.rfile.read(int(self.headers["Content-Length"])))
        if self.waits:
            time.sleep(SILENT_S)
        self.send_response(self.status)
        self.send_header("Content-Type", "text/event-stream" if self.status == 200 else "application/json")
        self.end_headers()
        for part in self.then if len(self.asked) > 1 else self.parts:
            self.wfile.write(part)
            self.wfile.flush()
            time.sleep(SILENT_S)


@pytest.fixture(name="door", scope="module")
def the_door(tmp_path_factory: pytest.TempPathFactory) -> Iterator[doors.Door]:
    folder = tmp_path_factory.mktemp("litellm")
    with ExitStack() as held, pytest.MonkeyPatch.context() as patch, place(folder) as at:
        urls = [held.enter_context(serving(SilentDouble)) for _ in range(2)]
        patch.setenv("TANDEM_ALIVE_S", str(ALIVE_S))
        door = doors.litellm("balanced", urls, "double", at, before=contained)
        yield door
        door.stop()


def ask(door: doors.Door, path: str, body: bytes, kind: str = "application/json") -> tuple[int, bytes]:
    """Status and body."""
    parts = urlsplit(door.url)
    assert parts.hostname
    connection = http.client.HTTPConnection(parts.hostname, parts.port, timeout=60)
    connection.request("POST", path, body, {"Authorization": f"Bearer {door.key}", "Content-Type": kind})
    response = connection.getresponse()
    said = response.status, response.read()
    connection.close()
    return said


def answers(*parts: bytes, status: int = 200, waits: bool = False, then: Sequence[bytes] = ()) -> None:
    SilentDouble.parts, SilentDouble.status, SilentDouble.waits = list(parts), status, waits
    SilentDouble.then = list(then or parts)
    SilentDouble.asked.clear()


@pytest.mark.parametrize(
    ("path", "asked", "parts", "sign"),
    [
        ("/v1/chat/completions", CHAT, [chunk("a"), chunk("b", "stop") + DONE], COMMENT),
        ("/v1/messages", MESSAGES, [START, TEXT, STOP], PING),
        ("/v1/responses", RESPONSES, [CREATED, DELTA, COMPLETED], KEEPALIVE),
        # Nothing at all comes for a while.
        ("/v1/chat/completions", CHAT, [b"", chunk("b", "stop") + DONE], COMMENT),
    ],
)
def test_a_silent_stream_says_that_it_lives_and_is_the_same_otherwise(
    door: doors.Door, path: str, asked: dict[str, Any], parts: list[bytes], sign: bytes
) -> None:
    answers(*parts)
    status, said = ask(door, path, json.dumps({**asked, "stream": True}).encode())
    assert (status, said.replace(sign, b"")) == (200, b"".join(parts))
    # Whole events stand around each.
    assert said.count(sign) >= 2 * (len(parts) - 1) and not said.endswith(sign)


def test_a_response_is_made_before_anything_else_is_said_and_made_once(door: doors.Door) -> None:
    """OpenAI's reader ends at any other event before it; and what is said so may be another engine's."""
    asked = json.dumps({**RESPONSES, "stream": True}).encode()
    anew = CREATED.replace(b"}\n", b', "again": 1}\n')
    answers(CREATED, then=[anew, DELTA, COMPLETED])
    status, said = ask(door, "/v1/responses", asked)
    assert (status, said.replace(KEEPALIVE, b"")) == (200, CREATED + DELTA + COMPLETED)
    assert len(SilentDouble.asked) == 2 and said.startswith(CREATED + KEEPALIVE)


def test_an_engine_that_has_not_begun_may_still_refuse(door: doors.Door) -> None:
    answers(b'{"error": {"code": 400}}', status=400, waits=True)
    asked = json.dumps({**CHAT, "stream": True}).encode()
    assert ask(door, "/v1/chat/completions", asked) == (400, b'{"error": {"code": 400}}')


def test_a_stream_that_has_lived_and_comes_to_nothing_ends_with_the_protocol_s_error(door: doors.Door) -> None:
    answers(START)
    status, said = ask(door, "/v1/messages", json.dumps({**MESSAGES, "stream": True}).encode())
    assert status == 200 and said.startswith(PING) and b"message_start" not in said
    assert json.loads(said.split(b"data: ")[-1])["error"]["type"] == "overloaded_error"


def test_sounds_go_as_bytes_and_what_is_none_is_told_in_words(door: doors.Door) -> None:
    kind = "multipart/form-data; boundary=xxxxxxxx"
    answers(b'{"detail":"Not Found"}', status=404)
    status, said = ask(door, "/v1/audio/transcriptions", FORM % b"double", kind)
    assert status == 404 and b"does not speak /v1/audio/transcriptions" in said
    assert SilentDouble.asked == [FORM % b"double"]
    for body, form, status, why in (
        (b"{}", "application/json", 400, b"multipart/form-data"),
        (FORM % b"another", kind, 404, b"no such model"),
        (FORM % b"double" + b"--xxxxxxxx", "multipart/form-data", 400, b"multipart/form-data"),
    ):
        answers()
        got, said = ask(door, "/v1/audio/transcriptions", body, form)
        assert got == status and why in said and SilentDouble.asked == []
    # Bytes of a sound are no objects: as JSON so many commas are refused.
    answers(b'{"text": "a"}', status=400)
    assert ask(door, "/v1/audio/translations", (FORM % b"double").replace(b"[[[", b"," * 600_000), kind)[0] == 400
    assert len(SilentDouble.asked) == 1
    assert ask(door, "/v1/audio/speech", b'{"model": "double", "input": [%s1]}' % (b"1," * 600_000))[0] == 413
