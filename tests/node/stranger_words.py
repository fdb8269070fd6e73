"""What a stranger would try at the door, a row each: bytes as they go over the wire, and what may come back.

`{client}`, `{expired}`, `{revoked}` and `{owner}` stand for keys. 0 is a connection that ends without an answer.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass

CHAT = "/v1/chat/completions"
#: Nothing that needs a key is said, and nobody has looked further.
UNKNOWN, NOT_THERE, ODD, LARGE, SLOW, CLOSED = 401, 404, 400, 413, 408, 0


@dataclass(frozen=True)
class Row:
    """`sends`: all of it, or what makes it piece by piece. `may`: statuses of its answers that are right; `exactly`:
    all of its answers, in order.
    """

    group: str
    name: str
    sends: bytes | Callable[[], object]
    may: tuple[int, ...]
    exactly: tuple[int, ...] = ()


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
