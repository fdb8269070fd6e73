"""What the door says itself: errors in OpenAI's form, which its clients know what to do with."""

from __future__ import annotations

import json
from typing import Any

from door_limits import Refused
from protocols import in_its_form

AWAY = "no engine answers at the moment; it starts by itself, or `tandem status` says why not"
BROKEN = "the engine broke off in the midst of this answer: ask again, and one that is there takes it"
#: Status, body and headers.
Said = tuple[int, bytes, list[tuple[bytes, bytes]]]


def unknown(why: str) -> Said:
    """Nobody's key."""
    return 401, _error(why, "invalid_request_error", "invalid_api_key"), [(b"www-authenticate", b"Bearer")]


def nothing_there(method: str) -> Said:
    """A path that keys of clients are not for, be it there or not. It is not repeated: it may have a key in it."""
    what = "chat, completions, messages, responses, embeddings, rerank, score, audio, tokenize and models"
    why = f"this key can't {method} that; it is for {what} under /v1"
    return 404, _error(why, "invalid_request_error", "not_found"), []


def odd(why: str) -> Said:
    """A body that is no request to this service."""
    return 400, _error(why, "invalid_request_error", "invalid_body"), []


def no_model() -> Said:
    """A request to somebody else."""
    why = "there is no such model here; `GET /v1/models` lists them"
    return 404, _error(why, "invalid_request_error", "model_not_found"), []


def not_spoken(path: str) -> Said:
    """An engine that does not have this protocol."""
    why = f"the engine of this model does not speak /v1/{path}; /v1/chat/completions is what each does"
    return 404, _error(why, "invalid_request_error", "not_found"), []


def not_for(path: str) -> Said:
    """A model on demand that is loaded for other questions."""
    why = f"this model has no answer on /v1/{path}; `GET /v1/models` lists what each is asked for (`answers`)"
    return 404, _error(why, "invalid_request_error", "not_found"), []


def too_much(refused: Refused) -> Said:
    """Over a limit, and when to come back."""
    after = [(b"retry-after", str(refused.after_s).encode())]
    return 429, _error(refused.why, refused.what, "rate_limit_exceeded"), after


def too_large(why: str) -> Said:
    """A body that is more than LiteLLM shall read."""
    return 413, _error(why, "invalid_request_error", "request_too_large"), []


def no_room() -> Said:
    """A large body, while so many are under way that one more would end LiteLLM for memory."""
    why = "other large bodies are under way here: send it again in a moment, or in parts"
    return 503, _error(why, "server_error", "service_unavailable"), [(b"retry-after", b"5")]


def too_slow() -> Said:
    """A body whose client has stopped sending it, or sends it by drops."""
    return 408, _error("the body did not arrive in time", "invalid_request_error", "request_timeout"), []


def failed() -> Said:
    """LiteLLM could not do it, and has no words of its own for that: most often a body that it does not take."""
    return 500, _error("the proxy can't do that with this body", "server_error", "internal_error"), []


def ends_engines(minutes: int) -> Said:
    """A request over which engines die. It is not sent again by clients' programs of themselves, as at a 5xx."""
    why = f"an engine has died over this request, so it is not asked again for {minutes} minutes; change it"
    return 422, _error(why, "invalid_request_error", "request_ends_engines"), []


def away(after_s: int = 0) -> Said:
    """There is nobody to ask; in how many seconds there may be, where it is known."""
    after = [(b"retry-after", str(after_s).encode())] if after_s else []
    return 503, _error(AWAY, "server_error", "service_unavailable"), after


def not_loaded(why: str, after_s: int, *, has_failed: bool) -> Said:
    """A model on demand that is not there yet, or whose load has failed; in how many seconds to ask again."""
    code = "model_load_failed" if has_failed else "model_not_loaded"
    return 503, _error(why, "server_error", code), [(b"retry-after", str(after_s).encode())]


def broken_off() -> Said:
    """The end of a stream that has begun, and that no engine goes on with."""
    return 503, _error(BROKEN, "server_error", "service_unavailable"), []


async def say(scope: Any, receive: Any, send: Any, answer: Said) -> int:
    """Send it instead of what was asked for; the status."""
    status, body, headers = answer
    body = in_its_form(scope["path"], status, body)
    kind = "http.response"
    if scope["type"] == "websocket":
        await receive()
        if "websocket.http.response" not in scope.get("extensions", {}):
            await send({"type": "websocket.close", "code": 1008})
            return status
        kind = "websocket.http.response"
    if not any(name == b"content-type" for name, _ in headers):
        headers = [(b"content-type", b"application/json"), *headers]
    headers = [*headers, (b"content-length", str(len(body)).encode())]
    await send({"type": f"{kind}.start", "status": status, "headers": headers})
    await send({"type": f"{kind}.body", "body": b"" if scope.get("method") == "HEAD" else body})
    return status


def _error(message: str, kind: str, code: str) -> bytes:
    return json.dumps({"error": {"message": message, "type": kind, "param": None, "code": code}}).encode()
