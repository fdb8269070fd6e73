"""Engine against door, byte by byte: the same requests to an engine's double and through HAProxy and LiteLLM to it.

Each difference stands in a table of docs/clients.md with its reason. One that is not there fails, and one that is gone.
"""

from __future__ import annotations

import base64
import http.client
import json
import re
from collections.abc import Iterator
from typing import Any
from urllib.parse import urlsplit

import pytest

from tests.bench.routing import doors
from tests.clients.whole_door import KEY, WholeDoor, whole_door
from tests.plan.samples import ROOT

pytestmark = pytest.mark.skipif(not doors.LITELLM.exists(), reason="no LiteLLM here: `make venv-proxy` installs it")

#: A difference, both sides, and why.
ROW = re.compile(r"^\| `([^`]+)` \| [^|]+ \| [^|]+ \|$", re.MULTILINE)
HI: list[Any] = [{"role": "user", "content": "Hi"}]
TOOL = {"name": "write", "parameters": {"type": "object"}}
CALL = [{"role": "user", "content": 'CALL write {"a": "b and more of it"} END'}]
FORM = "multipart/form-data; boundary=xxxxxxxx"
SOUND = b"".join(
    b'--xxxxxxxx\r\nContent-Disposition: form-data; name="%s"%s\r\n\r\n%s\r\n' % each
    for each in ((b"model", b"", b"double"), (b"file", b'; filename="a.wav"', bytes(range(256)) * 40))
)


def asked(**more: Any) -> bytes:
    # Spelled as no other program would.
    return json.dumps({"model": "double", **more}, indent=1).encode()


#: What is asked: path and body, and a content-type where it is no JSON.
REQUESTS: dict[str, tuple[str, bytes] | tuple[str, bytes, str]] = {
    "chat": ("/v1/chat/completions", asked(messages=HI, seed=2**60 + 1)),
    "chat, stream": ("/v1/chat/completions", asked(messages=HI, stream=True)),
    "chat, stream with usage": (
        "/v1/chat/completions",
        asked(messages=HI, stream=True, stream_options={"include_usage": True}),
    ),
    "chat, stream of a tool call": (
        "/v1/chat/completions",
        asked(messages=CALL, stream=True, tools=[{"type": "function", "function": TOOL}]),
    ),
    "completion": ("/v1/completions", asked(prompt=[1, 2])),
    "completion, stream": ("/v1/completions", asked(prompt="Hi", stream=True)),
    "message": ("/v1/messages", asked(messages=HI, max_tokens=9)),
    "message, stream": ("/v1/messages", asked(messages=HI, max_tokens=9, stream=True)),
    "message, stream of a tool call": (
        "/v1/messages",
        asked(messages=CALL, max_tokens=9, stream=True, tools=[{"name": "write", "input_schema": {}}]),
    ),
    "count_tokens": ("/v1/messages/count_tokens", asked(messages=HI)),
    "response": ("/v1/responses", asked(input="Hi")),
    "response, stream": ("/v1/responses", asked(input="Hi", stream=True)),
    "response, stream of a tool call": (
        "/v1/responses",
        asked(input=CALL, stream=True, tools=[{"type": "function", **TOOL}]),
    ),
    "refusal": ("/v1/responses", asked(input="Hi", tools=[{"type": "custom", "format": {"type": "grammar"}}])),
    "vectors": ("/v1/embeddings", asked(input=["a", "b"])),
    "vectors, base64": ("/v1/embeddings", asked(input="a", encoding_format="base64")),
    "vectors, bytes": ("/v1/embeddings", asked(input="a", encoding_format="bytes")),
    "rerank": ("/v1/rerank", asked(query="a", documents=["a", "b"])),
    "score": ("/v1/score", asked(text_1="a", text_2="b")),
    "tokenize": ("/tokenize", asked(prompt="a")),
    "detokenize": ("/detokenize", asked(tokens=[1])),
    "transcription": ("/v1/audio/transcriptions", SOUND + b"--xxxxxxxx--\r\n", FORM),
    "transcription, stream": (
        "/v1/audio/transcriptions",
        SOUND + b'--xxxxxxxx\r\nContent-Disposition: form-data; name="stream"\r\n\r\ntrue\r\n--xxxxxxxx--\r\n',
        FORM,
    ),
    "translation": ("/v1/audio/translations", SOUND + b"--xxxxxxxx--\r\n", FORM),
    "speech": ("/v1/audio/speech", asked(input="Hi", voice="a")),
}


@pytest.fixture(name="door", scope="module")
def the_door(tmp_path_factory: pytest.TempPathFactory) -> Iterator[WholeDoor]:
    with whole_door(tmp_path_factory.mktemp("door"), one=True) as door:
        yield door


def test_each_difference_is_known_and_has_its_reason(door: WholeDoor) -> None:
    found = dict[str, set[str]]()
    for name, (path, body, *kind) in REQUESTS.items():
        straight, through = (_both(door, url, path, body, *kind) for url in (door.engines[0].url, door.url))
        assert straight["answer status"] == through["answer status"], name
        for what in straight.keys() | through.keys():
            if straight.get(what) != through.get(what):
                found.setdefault(what, set()).add(name)
    for what, names in sorted(found.items()):
        print(f"{what}: {', '.join(sorted(names))}")
    known = set(ROW.findall((ROOT / "docs/clients.md").read_text()))
    assert found.keys() == known
    # Bytes differ in this alone: an engine is asked for what a stream costs, in JSON as it is written here.
    assert not any(what.startswith("answer body") for what in found)
    assert found["request body"] == {name for name, (_, _, *kind) in REQUESTS.items() if not kind}


def _both(door: WholeDoor, url: str, path: str, body: bytes, kind: str = "application/json") -> dict[str, Any]:
    """What the client has, and what the engine had, each under its name."""
    parts = urlsplit(url)
    assert parts.hostname
    connection = http.client.HTTPConnection(parts.hostname, parts.port, timeout=60)
    headers = {"Authorization": f"Bearer {KEY}", "Content-Type": kind, "X-Request-Id": "mine", "User-Agent": "test"}
    connection.request("POST", path, body, {**headers, "Accept": "*/*"})
    response = connection.getresponse()
    said = {"answer status": response.status, "answer body": response.read()}
    # Two seconds may lie between two answers.
    kept = [(name.lower(), value) for name, value in response.getheaders() if name.lower() != "date"]
    said |= {f"answer header {name}": value for name, value in kept}
    connection.close()
    had = door.engines[0].says("/received")
    sent = base64.b64decode(had["body"])
    said |= {"request path": had["path"], "request body": sent}
    if kind == "application/json":
        # As what it says, it is the same but for this.
        said["request fields"] = {**json.loads(sent), "stream_options": None}
    return said | {f"request header {name}": value for name, value in had["headers"].items()}
