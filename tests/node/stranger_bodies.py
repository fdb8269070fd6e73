"""Bodies that are too much, none, or meant for somebody else; and requests that two readers would read differently."""

from __future__ import annotations

import gzip
import json
from collections.abc import Callable

from tests.node.stranger_words import CHAT, CLOSED, LARGE, NOT_THERE, ODD, SLOW, UNKNOWN, Row, chat, http, raw

_LONG, _CHUNKED = "Content-Length: 2000000", "Transfer-Encoding: chunked"
_KEYED = b"Host: x\r\nAuthorization: Bearer {client}"


def _chunked(total: int) -> object:
    """A body of so many bytes, of which nobody is told beforehand."""
    yield raw(f"POST {CHAT} HTTP/1.1", "Host: door", "Authorization: Bearer {client}", "Transfer-Encoding: chunked")
    piece = b"10000\r\n" + b"x" * 65536 + b"\r\n"
    for _ in range(total >> 16):
        yield piece
    yield b"0\r\n\r\n"


def _large() -> object:
    yield raw(f"POST {CHAT} HTTP/1.1", "Host: door", "Authorization: Bearer {client}", f"Content-Length: {100 << 20}")
    for _ in range(1600):
        yield b"x" * 65536


def _half_a_body() -> object:
    yield raw(f"POST {CHAT} HTTP/1.1", "Host: door", "Authorization: Bearer {client}", "Content-Length: 900", body="{")
    yield 60.0


def _stalls(key: str, *length: str, by_drops: bool = False) -> Callable[[], object]:
    """More than HAProxy waits for, then nothing, or drops."""

    def pieces() -> object:
        is_chunked = "chunked" in length[0]
        yield raw(f"POST {CHAT} HTTP/1.1", "Host: door", *([f"Authorization: Bearer {key}"] if key else []), *length)
        for _ in range(12):
            yield b"10000\r\n" + b" " * 65536 + b"\r\n" if is_chunked else b" " * 65536
        for _ in range(120):
            yield 0.5
            if by_drops:
                yield b"1\r\n \r\n" if is_chunked else b" "

    return pieces


def _body(name: str, body: bytes | str, may: tuple[int, ...], *headers: str) -> Row:
    return Row("bodies", name, http("POST", CHAT, "{client}", body, *headers), may)


def _trickle() -> object:
    yield raw(f"POST {CHAT} HTTP/1.1", "Host: door", "Authorization: Bearer {client}", "Content-Length: 900", body="{")
    while True:
        yield 0.5
        yield b" "


BODIES = [
    Row("bodies", "100 MB, told", _large, (LARGE,)),
    Row("bodies", "100 MB, not told", lambda: _chunked(100 << 20), (LARGE, CLOSED)),
    Row("bodies", "half of one", _half_a_body, (SLOW,)),
    Row("bodies", "one that trickles", _trickle, (SLOW,)),
    Row("bodies", "768 KiB, then nothing", _stalls("{client}", _LONG), (SLOW,)),
    Row("bodies", "768 KiB in chunks, then nothing", _stalls("{client}", _CHUNKED), (SLOW,)),
    Row("bodies", "768 KiB, then drops", _stalls("{client}", _LONG, by_drops=True), (SLOW,)),
    Row("bodies", "768 KiB in chunks, then drops", _stalls("{client}", _CHUNKED, by_drops=True), (SLOW,)),
    Row("bodies", "768 KiB, then nothing, no key", _stalls("", _LONG), (UNKNOWN,)),
    Row("bodies", "768 KiB in chunks, then drops, no key", _stalls("", _CHUNKED, by_drops=True), (UNKNOWN,)),
    _body("100,000 lists in one another", "[" * 100_000 + "]" * 100_000, (ODD,)),
    _body(
        "240,000 names",
        '{"model":"double","metadata":{' + ",".join(f'"{at}":1' for at in range(240_000)) + "}}",
        (LARGE,),
    ),
    _body("600,000 empty lists", '{"model":"double","messages":[' + "[]," * 600_000 + "[]]}", (LARGE,)),
    _body("no JSON", "hello", (ODD,)),
    _body("no object", "[1]", (ODD,)),
    _body("nothing", "", (ODD,)),
    _body("no text", b"\xff\xfe\x00", (ODD,)),
    _body("a form", "model=double&messages=x", (ODD,), "Content-Type: application/x-www-form-urlencoded"),
    _body("gzip", gzip.compress(chat().encode()), (ODD, 415), "Content-Encoding: gzip"),
    _body("another model", chat(model="gpt-4o"), (NOT_THERE, ODD)),
    _body("a model that is a path", chat(model="../../etc/passwd"), (NOT_THERE, ODD)),
    _body("another engine", chat(api_base="http://10.0.0.1"), (ODD,)),
    _body("a configuration of its own", chat(user_config={"model_list": []}), (ODD,)),
    _body("fallbacks", chat(fallbacks=["x"]), (ODD,)),
    _body("counts within counts", chat(guided_regex="(.{0,30}x){30}"), (ODD,)),
    _body("a schema in a text, 400 deep", chat(guided_json='{"a":' * 400 + "1" + "}" * 400), (ODD,)),
    _body("how large pictures are made", chat(mm_processor_kwargs={"max_pixels": 10**9}), (ODD,)),
]
BODIES += [
    Row("bodies", f"{name}, for vectors", http("POST", "/v1/embeddings", "{client}", body), (ODD,))
    for name, body in (
        ("no object", "[1]"),
        ("no JSON", "x"),
        ("another engine", json.dumps({"model": "double", "input": "x", "api_base": "http://10.0.0.1"})),
    )
]
SMUGGLED = [
    *(
        Row(
            "two meanings",
            f"a chunk of {size}",
            raw(f"POST {CHAT} HTTP/1.1", "Host: x", "Transfer-Encoding: chunked", body=f"{size}\r\nhello\r\n0\r\n\r\n"),
            (ODD, UNKNOWN),
        )
        for size in ("+5", "0x5")
    ),
    Row(
        "two meanings",
        "length and chunked",
        raw(
            f"POST {CHAT} HTTP/1.1",
            "Host: x",
            "Content-Length: 5",
            "Transfer-Encoding: chunked",
            body="0\r\n\r\nGET /health HTTP/1.1\r\n\r\n",
        ),
        (ODD, UNKNOWN),
    ),
    Row(
        "two meanings",
        "two lengths",
        raw(f"POST {CHAT} HTTP/1.1", "Host: x", "Content-Length: 5", "Content-Length: 6", body="abcdef"),
        (ODD,),
    ),
    Row(
        "two meanings",
        "xchunked",
        raw(f"POST {CHAT} HTTP/1.1", "Host: x", "Transfer-Encoding: xchunked", body="0\r\n\r\n"),
        (ODD,),
    ),
    Row(
        "two meanings",
        "chunked twice",
        raw(
            f"POST {CHAT} HTTP/1.1",
            "Host: x",
            "Transfer-Encoding: chunked",
            "Transfer-Encoding: identity",
            body="0\r\n\r\n",
        ),
        (ODD, UNKNOWN),
    ),
    Row(
        "two meanings",
        "a space before the colon",
        raw(f"POST {CHAT} HTTP/1.1", "Host: x", "Content-Length : 5", body="abcde"),
        (ODD,),
    ),
    Row(
        "two meanings", "a length below nothing", raw(f"POST {CHAT} HTTP/1.1", "Host: x", "Content-Length: -1"), (ODD,)
    ),
    Row(
        "two meanings",
        "lines that end with LF",
        f"POST {CHAT} HTTP/1.1\nHost: x\nContent-Length: 0\nConnection: close\n\n".encode(),
        (ODD, UNKNOWN),
    ),
    Row(
        "two meanings",
        "CR within a header",
        raw("GET /v1/models HTTP/1.1", "Host: x", "X-A: a\rAuthorization: Bearer {client}"),
        (ODD,),
    ),
    Row(
        "two meanings", "NUL within a header", raw("GET /v1/models HTTP/1.1", "Host: x", "X-A: a\x00b"), (ODD, UNKNOWN)
    ),
    Row("two meanings", "two hosts", raw("GET /v1/models HTTP/1.1", "Host: x", "Host: y"), (ODD,)),
    Row(
        "two meanings",
        "a chunk longer than said",
        raw(f"POST {CHAT} HTTP/1.1", "Host: x", "Transfer-Encoding: chunked", body="1\r\nabc\r\n0\r\n\r\n"),
        (ODD,),
    ),
    Row(
        "two meanings",
        "one behind another, the second without a key",
        raw("GET /v1/models HTTP/1.1", "Host: x", "Authorization: Bearer {client}")
        + http("POST", "/key/generate", "", "{}"),
        (200, UNKNOWN),
        exactly=(200, UNKNOWN),
    ),
    # Odd case is chunked like any other: the request is whole, and its body no object.
    Row(
        "two meanings",
        "CHUNKED",
        raw(f"POST {CHAT} HTTP/1.1", "Host: x", "Transfer-Encoding: CHUNKED", body="1\r\n1\r\n0\r\n\r\n"),
        (ODD, UNKNOWN),
    ),
    Row(
        "two meanings",
        "a chunk with an extension",
        raw(f"POST {CHAT} HTTP/1.1", "Host: x", "Transfer-Encoding: chunked", body="1;a=b\r\n1\r\n0\r\n\r\n"),
        (ODD, UNKNOWN),
    ),
]
#: The same, with the key of a client: whoever has none may be refused before it matters which meaning is taken.
SMUGGLED += [
    Row(f"{row.group}, a client's key", row.name, row.sends.replace(b"Host: x", _KEYED, 1), (ODD, SLOW))
    for row in SMUGGLED
    if isinstance(row.sends, bytes) and not row.exactly and row.name not in ("two hosts", "NUL within a header")
]
