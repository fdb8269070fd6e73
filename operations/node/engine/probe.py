"""Does an engine, or the proxy, really answer? `/health` alone proves nothing: only tokens do."""

from __future__ import annotations

import json
import re
import ssl
import time
import urllib.error
import urllib.request
from http.client import HTTPException, HTTPResponse
from pathlib import Path

from operations.node.door import certificate
from operations.node.unit import brief
from operations.paths import ONDEMAND
from operations.wire import Json
from operations.wire.unit import Probed, Question

#: What an engine is asked that is asked nothing else: a token.
CHAT: Question = {
    "path": "/v1/chat/completions",
    "body": {"messages": [{"role": "user", "content": "Hi"}], "max_tokens": 1},
    "pattern": r'"completion_tokens": ?[1-9]',
}


def main(
    unit: str,
    url: str,
    model: str,
    key_file: str = "",
    deadline_s: float = 30,
    question: Question | None = None,
) -> Probed:
    """Whether it gives what it is asked for (`question`: path, body, and a pattern that is found in a good answer). A
    model that is loaded when somebody asks, and is not, is asked nothing by the proxy: that would load it. Then what
    loads it has to answer.

    `ok`; else `problem`, the unit's state, the last line of its log, and `listens`: an engine that has loaded says
    what it serves, although a prompt before us may keep it from giving a token. One that says 503 to a question is not
    there yet, or no more: llama-server of 2025 says what it serves while it loads (its tools/server/server.cpp).
    """
    key = Path(key_file).read_text().strip() if key_file and Path(key_file).exists() else ""
    start, listens = time.monotonic(), False
    try:
        served = {entry["id"]: entry for entry in ask(f"{url}/v1/models", None, key, deadline_s)["data"]}
        listens = True
        if model not in served:
            raise ValueError(f"serves {', '.join(served)}, not {model}")
        is_loaded = served[model].get("loaded", True)
        if is_loaded is None:
            raise ValueError(f"the node that loads {model} does not answer (sudo journalctl -u {ONDEMAND}, there)")
        if not is_loaded:
            return {"ok": True, "seconds": time.monotonic() - start}
        wanted = question or CHAT
        answer = ask(f"{url}{wanted['path']}", {"model": model, **wanted["body"]}, key, deadline_s)
        if not re.search(wanted["pattern"], json.dumps(answer)):
            raise ValueError("answered without a token" if wanted is CHAT else f"answered {json.dumps(answer)[:80]}")
    except urllib.error.HTTPError as error:
        listens &= error.code != 503
        problem = f"HTTP {error.code}: {error.read().decode(errors='replace')[:200]}"
    except (OSError, HTTPException, ValueError, KeyError, TypeError) as error:
        problem = str(getattr(error, "reason", error)) or type(error).__name__
    else:
        return {"ok": True, "seconds": time.monotonic() - start}
    found = brief.main(unit)
    return {"ok": False, "problem": problem, "listens": listens, "state": found["state"], "log": found["log"]}


def ask(url: str, body: Json | None, key: str, deadline_s: float) -> Json:
    """The JSON that a server answers; raises OSError or ValueError."""
    with opened(url, body, key, deadline_s) as response:
        answer: Json = json.load(response)
    return answer


def opened(url: str, body: Json | None, key: str, deadline_s: float) -> HTTPResponse:
    """An answer, to be read and closed; raises OSError (HTTPError for a status from 400 on) or HTTPException.

    `deadline_s`: seconds for which nothing may come.
    """
    data = json.dumps(body).encode() if body else None
    headers = {"Content-Type": "application/json"} | ({"Authorization": f"Bearer {key}"} if key else {})
    request = urllib.request.Request(url, data, headers)
    response: HTTPResponse = urllib.request.urlopen(request, timeout=deadline_s, context=_trust(url))
    return response


def _trust(url: str) -> ssl.SSLContext | None:
    """A node knows its own proxy by what that shows, whoever has signed it."""
    if not url.startswith("https:"):
        return None
    context = ssl.create_default_context()
    if certificate.PEM.exists():
        context.load_verify_locations(cadata=certificate.shown())
        context.verify_flags |= ssl.VERIFY_X509_PARTIAL_CHAIN
        # An owner's own may be for a name that only clients use.
        context.check_hostname = False
    return context
