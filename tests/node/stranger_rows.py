"""What a stranger would try at the door, a row each."""

from __future__ import annotations

from tests.node.stranger_bodies import BODIES, SMUGGLED
from tests.node.stranger_shapes import SHAPES
from tests.node.stranger_words import CHAT, CLOSED, NOT_THERE, ODD, SLOW, UNKNOWN, Row, http


def _endless_headers() -> object:
    yield f"POST {CHAT} HTTP/1.1\r\nHost: door\r\n".encode()
    while True:
        yield 0.5
        yield b"X-More: 1\r\n"


def _key(name: str, value: str, may: tuple[int, ...] = (UNKNOWN,)) -> Row:
    return Row("keys", name, http("GET", "/v1/models", value), may)


def _path(path: str, may: tuple[int, ...] = (NOT_THERE,), key: str = "{client}", method: str = "GET") -> Row:
    return Row("paths", f"{method} {path}" if key else f"{method} {path}, no key", http(method, path, key), may)


def _shut(path: str, method: str = "GET") -> Row:
    return Row("routes of LiteLLM's, no key", f"{method} {path}", http(method, path), (UNKNOWN,))


def _with_key(row: Row) -> bytes:
    assert isinstance(row.sends, bytes)
    return row.sends.replace(b"Host: door", b"Host: door\r\nAuthorization: Bearer {client}")


KEYS = [
    Row("keys", "none", http("GET", "/v1/models"), (UNKNOWN,)),
    _key("a wrong one", "sk-nobody"),
    _key("another deployment's", "sk-Vb3r9Qm1xT7yLw0KcZ5uHn8sJd2fGa4eRp6oEiUvXq"),
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
#: The same, with the key of a client.
ROUTES += [Row("routes of LiteLLM's, a client's key", row.name, _with_key(row), (NOT_THERE,)) for row in ROUTES]
PATHS = [
    _path("//v1/models"),
    _path("/v1/%2e%2e/key/generate", method="POST"),
    _path("/v1/models/../../config/yaml"),
    _path("/v1/models/%2e%2e%2fconfig"),
    _path("/V1/MODELS"),
    _path("/v1/models;/health"),
    _path("/v1/models%00"),
    _path("/v1/models\x00", (ODD,)),
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
ROWS = [*KEYS, *ROUTES, *PATHS, *HEADERS, *METHODS, *BODIES, *SHAPES, *SMUGGLED]
