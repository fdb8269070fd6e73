"""What a stranger would try at the door, a row each: bytes as they go over the wire, and what may come back.

`{client}`, `{expired}`, `{revoked}` and `{owner}` stand for keys. 0 is a connection that ends without an answer.
"""

from __future__ import annotations

import gzip
import json
from collections.abc import Callable
from dataclasses import dataclass

CHAT = "/v1/chat/completions"
#: Nothing that needs a key is said, and nobody has looked further.
UNKNOWN, NOT_THERE, ODD, LARGE, SLOW, CLOSED = 401, 404, 400, 413, 408, 0


@dataclass(frozen=True)
class Row:
    """`sends`: all of it, or what makes it piece by piece. `may`: statuses that are right."""

    group: str
    name: str
    sends: bytes | Callable[[], object]
    may: tuple[int, ...]
    #: Answers that an engine begins for it.
    engines: int = 0


def http(
    method: str = "POST", path: str = CHAT, key: str = "", body: bytes | str = b"", *headers: str, version: str = "1.1"
) -> bytes:
    """One request; `key` as it stands behind Bearer."""
    content = body.encode() if isinstance(body, str) else body
    lines = [f"{method} {path} HTTP/{version}", "Host: door", *([f"Authorization: Bearer {key}"] if key else [])]
    lines += [*headers, f"Content-Length: {len(content)}", "Connection: close"]
    return "\r\n".join([*lines, "", ""]).encode() + content


def raw(*lines: str, body: str = "") -> bytes:
    """A request whose headers are these, and nothing else."""
    return ("\r\n".join([*lines, "", ""]) + body).encode()


def chat(**more: object) -> str:
    return json.dumps({"model": "double", "messages": [{"role": "user", "content": "Hi"}], "max_tokens": 1, **more})


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


def _endless_headers() -> object:
    yield f"POST {CHAT} HTTP/1.1\r\nHost: door\r\n".encode()
    while True:
        yield 0.5
        yield b"X-More: 1\r\n"


def _half_a_body() -> object:
    yield raw(f"POST {CHAT} HTTP/1.1", "Host: door", "Authorization: Bearer {client}", "Content-Length: 900", body="{")
    yield 60.0


def _key(name: str, value: str, may: tuple[int, ...] = (UNKNOWN,)) -> Row:
    return Row("keys", name, http("GET", "/v1/models", value), may)


def _path(path: str, may: tuple[int, ...] = (NOT_THERE,), key: str = "{client}", method: str = "GET") -> Row:
    return Row("paths", f"{method} {path}" if key else f"{method} {path}, no key", http(method, path, key), may)


def _shut(path: str, method: str = "GET") -> Row:
    return Row("routes of LiteLLM's, no key", f"{method} {path}", http(method, path), (UNKNOWN,))


def _body(name: str, body: bytes | str, may: tuple[int, ...], *headers: str, engines: int = 0) -> Row:
    return Row("bodies", name, http("POST", CHAT, "{client}", body, *headers), may, engines)


KEYS = [
    Row("keys", "none", http("GET", "/v1/models"), (UNKNOWN,)),
    _key("a wrong one", "sk-nobody"),
    _key("an empty one", " "),
    _key("expired", "{expired}"),
    _key("revoked", "{revoked}"),
    _key("the first half of one", "sk-client"),
    # HAProxy's buffer is the bound.
    _key("of 1 MiB", "x" * (1 << 20), (ODD, 431, CLOSED)),
    Row("keys", "in the query", http("GET", "/v1/models?api_key={client}&key={client}"), (UNKNOWN,)),
    Row("keys", "two of them", http("GET", "/v1/models", "{client}", b"", "Authorization: Bearer sk-x"), (UNKNOWN,)),
    Row(
        "keys",
        "in another header, beside a wrong one",
        http("GET", "/v1/models", "sk-x", b"", "api-key: {client}"),
        (UNKNOWN,),
    ),
    Row("keys", "as Basic", http("GET", "/v1/models", "", b"", "Authorization: Basic c2stY2xpZW50Og=="), (UNKNOWN,)),
    Row("keys", "as a cookie", http("GET", "/v1/models", "", b"", "Cookie: token={client}"), (UNKNOWN,)),
]
ROUTES = [
    *(_shut(path) for path in ("/", "/docs", "/redoc", "/openapi.json", "/metrics", "/health", "/health/readiness")),
    *(
        _shut(path)
        for path in ("/config/yaml", "/ui", "/ui/login", "/sso/key/generate", "/public/model_hub", "/get/config")
    ),
    *(
        _shut(path)
        for path in ("/.well-known/openid-configuration", "/.well-known/litellm-ui-config", "/v2/model/info")
    ),
    *(_shut(path, "POST") for path in ("/key/generate", "/user/new", "/model/new", "/login", "/v2/login", "/mcp")),
]
PATHS = [
    _path("//v1/models"),
    _path("/v1/%2e%2e/key/generate", method="POST"),
    _path("/v1/models/../../config/yaml"),
    _path("/v1/models/%2e%2e%2fconfig"),
    _path("/V1/MODELS"),
    _path("/v1/models;/health"),
    _path("/v1/models%00"),
    _path("/health/liveliness/../readiness", (NOT_THERE, UNKNOWN)),
    _path("/health/liveliness/../readiness", (UNKNOWN,), key=""),
    _path("http://door/key/generate", (NOT_THERE, ODD), method="POST"),
    _path("*", (ODD, NOT_THERE), method="OPTIONS"),
    _path("/key/generate", method="POST"),
    _path("/config/update", method="POST"),
]
HEADERS = [
    Row(
        "headers",
        "another host",
        http("POST", "/key/generate", "{client}", "{}").replace(b"door", b"localhost"),
        (NOT_THERE,),
    ),
    Row(
        "headers",
        "a path in X-Original-URL",
        http("GET", "/v1/models", "", b"", "X-Original-URL: /health/liveliness"),
        (UNKNOWN,),
    ),
    Row(
        "headers",
        "another method in a header",
        http("GET", "/v1/models", "", b"", "X-HTTP-Method-Override: OPTIONS"),
        (UNKNOWN,),
    ),
    Row(
        "headers",
        "from itself, by X-Forwarded-For",
        http("GET", "/v1/models", "", b"", "X-Forwarded-For: 127.0.0.1"),
        (UNKNOWN,),
    ),
    Row(
        "headers", "200 of them", http("GET", "/v1/models", "", b"", *(f"X-{n}: 1" for n in range(200))), (ODD, UNKNOWN)
    ),
    Row(
        "headers",
        "one of 600 KiB",
        http("GET", "/v1/models", "", b"", f"X-Long: {'x' * (600 << 10)}"),
        (ODD, 431, CLOSED),
    ),
    Row("headers", "that never end", _endless_headers, (SLOW, CLOSED)),
]
METHODS = [
    Row("methods", "TRACE", http("TRACE", "/v1/models", "{client}"), (NOT_THERE, 405, ODD)),
    Row("methods", "CONNECT", http("CONNECT", "10.0.0.1:22", "{client}"), (NOT_THERE, 405, ODD)),
    Row("methods", "OPTIONS, not a browser's", http("OPTIONS", "/v1/models"), (UNKNOWN,)),
    Row("methods", "one that is none", http("STEAL", "/v1/models", "{client}"), (NOT_THERE, 405, ODD)),
    Row("methods", "HTTP/0.9", b"GET /v1/models\r\n", (ODD, CLOSED)),
    Row("methods", "HTTP/2 without asking", b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", (ODD, CLOSED, 405)),
    Row(
        "methods",
        "a websocket",
        http(
            "GET",
            "/v1/realtime",
            "{client}",
            b"",
            "Upgrade: websocket",
            "Sec-WebSocket-Version: 13",
            "Sec-WebSocket-Key: AAAAAAAAAAAAAAAAAAAAAA==",
        ),
        (NOT_THERE, ODD, 403, UNKNOWN),
    ),
    Row(
        "methods",
        "TLS where there is none",
        b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03" + b"\x00" * 64,
        (ODD, CLOSED),
    ),
]
BODIES = [
    Row("bodies", "100 MB, told", _large, (LARGE,)),
    Row("bodies", "100 MB, not told", lambda: _chunked(100 << 20), (LARGE, CLOSED)),
    Row("bodies", "half of one", _half_a_body, (SLOW,)),
    _body("100,000 lists in one another", "[" * 100_000 + "]" * 100_000, (ODD,)),
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
    Row("two meanings", "NUL within a header", raw("GET /v1/models HTTP/1.1", "Host: x", "X-A: a\x00b"), (ODD,)),
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
    ),
]
ROWS = [*KEYS, *ROUTES, *PATHS, *HEADERS, *METHODS, *BODIES, *SMUGGLED]
