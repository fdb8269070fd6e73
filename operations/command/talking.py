"""A talk with the model in a terminal."""

from __future__ import annotations

import json
import os
import sys
import tempfile
from collections.abc import Iterator
from typing import Any

import requests

#: Seconds for the proxy to take a request, and between two pieces of an answer.
_TAKES_S, _PIECE_S = 10, 600


def talk(url: str, key: str, model: str, question: str, authority: str = "") -> int:
    """`url` ends in /v1; `authority`: the certificate that the proxy's is signed by, or empty. 1: it did not answer."""
    with tempfile.NamedTemporaryFile("w", suffix=".crt") as trusted:
        trusted.write(authority)
        trusted.flush()
        session = requests.Session()
        session.headers["Authorization"] = f"Bearer {key}"
        session.trust_env = False
        if authority:
            session.verify = trusted.name
        if not question and sys.stdin.isatty():
            print(f"{model} at {url}; an empty line or Ctrl-D ends it", file=sys.stderr)
        said: list[dict[str, str]] = []
        for asked in [question] if question else _questions():
            said.append({"role": "user", "content": asked})
            try:
                said.append({"role": "assistant", "content": _answer(session, url, model, said)})
            except (requests.RequestException, ValueError) as error:
                print(f"tandem: {model}: {error}; `tandem status` says how it is", file=sys.stderr)
                return 1
    return 0


def _questions() -> Iterator[str]:
    """What is typed, until an empty line."""
    prompt = "> " if sys.stdin.isatty() else ""
    while True:
        try:
            if not (line := input(prompt).strip()):
                return
        except EOFError:
            return
        yield line


def _answer(session: requests.Session, url: str, model: str, said: list[dict[str, str]]) -> str:
    """Prints an answer as it comes, its thoughts dimmed on a terminal; returns it without them."""
    asked = {"model": model, "messages": said, "stream": True}
    text, thinks = "", False
    with session.post(f"{url}/chat/completions", json=asked, stream=True, timeout=(_TAKES_S, _PIECE_S)) as answer:
        if not answer.ok:
            raise ValueError(_problem(answer))
        for line in answer.iter_lines():
            if not line.startswith(b"data: ") or line == b"data: [DONE]":
                continue
            piece: dict[str, Any] = json.loads(line[6:])
            if "error" in piece:
                raise ValueError(str(piece["error"].get("message", piece["error"])))
            delta = piece["choices"][0]["delta"] if piece.get("choices") else {}
            thought = delta.get("reasoning_content") or delta.get("reasoning") or ""
            if sys.stdout.isatty() and thought:
                print(_dim(thought), end="", flush=True)
                thinks = True
            if spoken := delta.get("content") or "":
                print("\n\n" * thinks + spoken, end="", flush=True)
                text, thinks = text + spoken, False
    print()
    return text


def _problem(answer: requests.Response) -> str:
    try:
        return str(answer.json()["error"]["message"])
    except (ValueError, KeyError, TypeError):
        return f"answered {answer.status_code}"


def _dim(text: str) -> str:
    return text if os.environ.get("NO_COLOR") else f"\x1b[2m{text}\x1b[0m"
