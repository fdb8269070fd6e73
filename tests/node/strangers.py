"""Asking a proxy as strangers do, without a key or with a wrong one: the real LiteLLM, here and on the lab."""

from __future__ import annotations

import http.client
import json
import re
from collections.abc import Iterable, Mapping
from typing import Any
from urllib.parse import urlsplit

#: The one route that needs no key.
LIVENESS = ("GET", "/health/liveliness")
#: Seconds for an answer.
PATIENCE_S = 120
#: A client's first words for a websocket.
_UPGRADE = {
    "Connection": "Upgrade",
    "Upgrade": "websocket",
    "Sec-WebSocket-Version": "13",
    "Sec-WebSocket-Key": "AAAAAAAAAAAAAAAAAAAAAA==",
}


def request(
    url: str, method: str, path: str, key: str | None = None, body: Any = None, headers: Mapping[str, str] | None = None
) -> tuple[int, dict[str, str], bytes]:
    """Status, headers and body of one answer; no redirect is followed."""
    parts = urlsplit(url)
    assert parts.hostname
    connection = http.client.HTTPConnection(parts.hostname, parts.port, timeout=PATIENCE_S)
    said = dict(headers or {})
    if key is not None:
        said["Authorization"] = f"Bearer {key}"
    content = None
    if body is not None:
        said["Content-Type"], content = "application/json", json.dumps(body).encode()
    try:
        connection.request(method, path, content, said)
        response = connection.getresponse()
        # What a websocket that has opened says has no end.
        text = b"" if response.status == 101 else response.read()
        return response.status, {name.lower(): value for name, value in response.getheaders()}, text
    finally:
        connection.close()


def walk(url: str, table: Iterable[tuple[str, str]], key: str | None = None) -> dict[tuple[str, str], int]:
    """Status of each route of LiteLLM's table, with something in the place of what varies; 0: the connection ended."""
    found = {}
    for method, route in table:
        path = re.sub(r"\{[^}]*\}", "x", route)
        is_socket = method == "websocket"
        try:
            status, _, _ = request(
                url, "GET" if is_socket else method, path, key, headers=_UPGRADE if is_socket else {}
            )
        except (OSError, http.client.HTTPException):
            status = 0
        found[method, route] = status
    return found


def in_openai_form(text: bytes) -> dict[str, Any]:
    """The error of an answer; fails where it has another form."""
    said = json.loads(text)
    assert set(said) == {"error"} and set(said["error"]) == {"message", "type", "param", "code"}
    assert isinstance(said["error"]["message"], str) and isinstance(said["error"]["code"], str)
    error: dict[str, Any] = said["error"]
    return error
