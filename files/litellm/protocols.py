"""Protocols that engines speak beside OpenAI's chats and completions: Anthropic's messages, OpenAI's responses, and
what is asked of an engine itself. Their words pass as bytes; what differs is how a stream begins and ends, and how an
error is said.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any

#: The list of models, or one of them: its name may have slashes in it, ORG/NAME.
MODELS = r"(?:/v1)?/models((?:/(?!\.\.?(?:/|$))[^/\n]+)*)"
#: What clients ask engines, without and with /v1 (/v2/rerank is Cohere's).
ASKED = (
    r"(?:/v1)?/(chat/completions|completions|embeddings|rerank|score|messages(?:/count_tokens)?|responses|tokenize"
    r"|detokenize|audio/(?:transcriptions|translations|speech))|/v2/(rerank)"
)
#: Of these, paths whose body is a form with a sound in it (forms.py).
FORMS = ("audio/transcriptions", "audio/translations")
#: Paths below an engine's root, and not below its /v1.
ROOT = ("tokenize", "detokenize")
#: By which a stream says that it lives where no part of the answer comes: a comment of SSE's, which readers skip, and
#: Anthropic's and OpenAI's own events. Codex counts events alone against its patience.
COMMENT, PING = b": it lives\n\n", b'event: ping\ndata: {"type": "ping"}\n\n'
KEEPALIVE = b'event: keepalive\ndata: {"type": "keepalive"}\n\n'
SIGNS = (COMMENT, PING, KEEPALIVE)
#: Anthropic's words for statuses; any other is an `api_error`.
_KINDS = {
    400: "invalid_request_error",
    401: "authentication_error",
    403: "permission_error",
    404: "not_found_error",
    413: "request_too_large",
    422: "invalid_request_error",
    429: "rate_limit_error",
    503: "overloaded_error",
}


@dataclass(frozen=True)
class Stream:
    """How a stream of a protocol is read. `text`: in an event by which the client has something of the answer; `ends`:
    in those that are its end; `sign`: what says that it lives; `begins`: events before that, which say nothing of the
    answer.
    """

    text: bytes
    ends: tuple[bytes, ...]
    sign: bytes
    begins: tuple[bytes, ...] = ()


_SOUND = Stream(b'"delta"', (b"data: [DONE]\n",), COMMENT)
#: By the path of a request.
STREAMS = {
    "messages": Stream(b"event: content_block_delta\n", (b"event: message_stop\n",), PING),
    **dict.fromkeys(FORMS, _SOUND),
    "responses": Stream(
        b".delta\n",
        tuple(b"event: response." + each + b"\n" for each in (b"completed", b"incomplete", b"failed")),
        KEEPALIVE,
        tuple(b"event: response." + each + b"\n" for each in (b"created", b"queued", b"in_progress")),
    ),
}


def ended(path: str, status: int, body: bytes) -> bytes:
    """The last event of a stream of a path that has begun, and has no end of its own. `body`: why, in OpenAI's form."""
    if path == "responses":
        error = json.loads(body)["error"]
        said = {"type": "error", "code": error["type"], "message": error["message"], "param": None}
        body = json.dumps(said).encode()
    event = b"" if path.endswith("completions") or path in FORMS else b"event: error\n"
    return event + b"data: " + in_its_form(f"/{path}", status, body) + b"\n\n"


def refused(path: str, status: int, body: bytes) -> bytes:
    """The same for an engine's own refusal, in whatever form it has said it."""
    try:
        said = json.loads(body)
        error = said.get("error", said)
        why = {"message": str(error["message"]), "type": str(error.get("type") or "invalid_request_error")}
    except (ValueError, KeyError, TypeError, AttributeError):
        why = {"message": f"the engine refuses this request (HTTP {status})", "type": "invalid_request_error"}
    return ended(path, status, json.dumps({"error": {**why, "param": None, "code": status}}).encode())


def wrong(path: str, asked: dict[str, Any]) -> str:
    """What no engine of this service does; empty: nothing."""
    if path == "responses" and asked.get("background"):
        return "`background`: a response is given while its client waits; leave it out"
    return ""


def in_its_form(path: str, status: int, body: bytes) -> bytes:
    """An error in OpenAI's form as the protocol of its path says it."""
    if "/messages" not in path or status < 400:
        return body
    try:
        said = json.loads(body)
        if said.get("type") == "error":
            return body
        error = {"type": _KINDS.get(status, "api_error"), "message": str(said["error"]["message"])}
    except (ValueError, KeyError, TypeError, AttributeError):
        return body
    return json.dumps({"type": "error", "error": error}).encode()
