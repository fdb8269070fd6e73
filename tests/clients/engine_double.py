"""An engine that speaks vLLM's protocols and does as the question says: `python -m tests.clients.engine_double PORT`.

A question with `CALL TOOL {arguments} END` in it is answered by that call, where the client has such a tool; with
`PIECES n` by so many pieces, one each 0.05 s; with `SILENT n` by a pause of so many seconds in its midst, and with
`LATE n` by one behind its first event, as a long question takes; with `SAY ... END` by that text. `PACE s` is the time
of a piece of a call. A tool's result ends the call. Anything else gets ANSWER, and a picture its size.
"""

from __future__ import annotations

import base64
import json
import re
import struct
import sys
import threading
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from tests.clients.said_double import MODEL, PROMPT, PROTOCOLS, Turn

ANSWER, DONE = "The answer is 42.", "It is done."
#: Seconds between two pieces; a piece of an answer that is asked for by `PIECES` takes PIECE_S.
PIECE_S = 0.05
#: Characters of a piece.
PIECE = 4
#: A vector; floats of four bytes say it exactly.
VECTOR = [0.5, -0.25, 0.125, 1.0]
_CALL = re.compile(r"CALL (\S+) (\{.*?\}) END", re.DOTALL)


def flat(value: Any) -> list[dict[str, Any]]:
    """Each object in it, at any depth, in its order."""
    if isinstance(value, list):
        return [found for each in value for found in flat(each)]
    if isinstance(value, dict):
        return [value, *(found for each in value.values() for found in flat(each))]
    return []


def tools(asked: dict[str, Any]) -> set[str]:
    """Names of the tools that the client has."""
    return {each["name"] for each in flat(asked.get("tools")) if isinstance(each.get("name"), str)}


def turn(asked: dict[str, Any]) -> tuple[Turn, float, float]:
    """What is answered; seconds between two pieces, and of a pause in the midst of them."""
    said = asked.get("messages") or asked.get("input") or asked.get("prompt") or ""
    parts = flat(said) if isinstance(said, list) else [{"content": said}]
    texts = [
        value
        for each in parts
        for name, value in each.items()
        if name in ("content", "text") and isinstance(value, str)
    ]
    text = "\n".join(texts)
    has_result = any(
        each.get("role") == "tool" or each.get("type") in ("tool_result", "function_call_output") for each in parts
    )
    silent = float(found[1]) if (found := re.search(r"(?:SILENT|LATE) (\d+)", text)) else 0.0
    call = _CALL.search(text)
    if call and not has_result and call[1] in tools(asked):
        arguments = json.dumps(json.loads(call[2]))
        pace = float(found[1]) if (found := re.search(r"PACE ([\d.]+)", text)) else 0.0
        return Turn([arguments[at : at + PIECE] for at in range(0, len(arguments), PIECE)], call[1]), pace, silent
    if many := re.search(r"PIECES (\d+)", text):
        return Turn(["word "] * int(many[1])), PIECE_S, silent
    if spoken := re.search(r"SAY\n(.*?)\nEND", text, re.DOTALL):
        return Turn([spoken[1]]), 0, silent
    data = [url for each in parts for url in pictures(each)]
    answer = f"A picture of {len(base64.b64decode(data[-1]))} bytes." if data else DONE if has_result else ANSWER
    return Turn(re.findall(r"\S+\s*", answer)), 0, silent


def pictures(part: dict[str, Any]) -> list[str]:
    """Their data, in each protocol's form."""
    if part.get("type") == "base64" and isinstance(part.get("data"), str):
        return [part["data"]]
    said = part.get("image_url")
    url = said.get("url") if isinstance(said, dict) else said
    return [url.partition("base64,")[2]] if isinstance(url, str) and url.startswith("data:") else []


class EngineDouble(BaseHTTPRequestHandler):
    """One request."""

    protocol_version = "HTTP/1.1"
    under_way = 0
    #: What was asked last, by path; and the last request of all, with its headers.
    asked: dict[str, Any] = {}
    received: dict[str, Any] = {}
    lock = threading.Lock()

    def do_GET(self) -> None:
        """/under_way, /asked and /received are the test's; /v1/models."""
        if self.path == "/under_way":
            return self.answer(200, EngineDouble.under_way)
        if self.path == "/asked":
            return self.answer(200, EngineDouble.asked)
        if self.path == "/received":
            return self.answer(200, EngineDouble.received)
        return self.answer(200, {"object": "list", "data": [{"id": MODEL, "object": "model"}]})

    def do_POST(self) -> None:
        """Anything else."""
        body = self.rfile.read(int(self.headers["Content-Length"]))
        headers = {name.lower(): value for name, value in self.headers.items()}
        EngineDouble.received = {"path": self.path, "headers": headers, "body": base64.b64encode(body).decode()}
        with EngineDouble.lock:
            EngineDouble.under_way += 1
        try:
            self.reply(body)
        except OSError:
            self.close_connection = True
        finally:
            with EngineDouble.lock:
                EngineDouble.under_way -= 1

    def reply(self, body: bytes) -> None:
        """By its path."""
        if self.path.startswith("/v1/audio/"):
            return self.heard(body)
        asked = json.loads(body)
        EngineDouble.asked[self.path] = asked
        if any(
            (each.get("format") or {}).get("type") == "grammar"
            for each in asked.get("tools") or []
            if each.get("type") == "custom"
        ):
            # As vLLM refuses it.
            why = "Custom tools with a grammar format are not supported; only free-form text custom tools are accepted."
            return self.answer(
                400, {"error": {"message": why, "type": "BadRequestError", "param": "tools", "code": 400}}
            )
        if self.path.endswith("count_tokens"):
            return self.answer(200, {"input_tokens": PROMPT})
        if self.path == "/detokenize":
            return self.answer(200, {"prompt": "a"})
        if self.path == "/tokenize":
            return self.answer(200, {"count": 1, "max_model_len": 131072, "tokens": [1], "token_strs": None})
        if self.path == "/v1/embeddings":
            return self.vectors(asked)
        if self.path in ("/v1/rerank", "/v1/score"):
            return self.ranked(asked)
        if self.path not in PROTOCOLS:
            return self.answer(404, {"detail": "Not Found"})
        whole, streamed = PROTOCOLS[self.path]
        said, each_s, silent_s = turn(asked)
        if not asked.get("stream"):
            time.sleep(silent_s + each_s * len(said.pieces))
            return self.answer(200, whole(said))
        self.begin("text/event-stream; charset=utf-8")
        events = list(streamed(said, asked))
        for number, event in enumerate(events):
            if number == (1 if b"LATE " in body else len(events) // 2):
                time.sleep(silent_s)
            self.part(event.encode())
            time.sleep(each_s)
        return self.part(b"")

    def vectors(self, asked: dict[str, Any]) -> None:
        """As floats or as base64, of which clients of OpenAI's ask by default."""
        if asked.get("encoding_format") == "bytes":
            # Where each vector lies its header says.
            return self.answer(200, b"\x00\xff\n\n", "application/octet-stream", '{"data":[]}')
        told = struct.pack(f"<{len(VECTOR)}f", *VECTOR)
        vector: Any = base64.b64encode(told).decode() if asked.get("encoding_format") == "base64" else VECTOR
        count = (
            len(asked["input"]) if isinstance(asked["input"], list) and not isinstance(asked["input"][0], int) else 1
        )
        data = [{"object": "embedding", "index": number, "embedding": vector} for number in range(count)]
        usage = {"prompt_tokens": PROMPT, "total_tokens": PROMPT, "completion_tokens": 0, "prompt_tokens_details": None}
        return self.answer(
            200, {"id": "embd-1", "object": "list", "created": 1, "model": MODEL, "data": data, "usage": usage}
        )

    def ranked(self, asked: dict[str, Any]) -> None:
        """Each as good as the other."""
        usage = {"prompt_tokens": PROMPT, "total_tokens": PROMPT}
        if self.path == "/v1/score":
            data = [{"index": 0, "object": "score", "score": 0.5}]
            return self.answer(200, {"id": "score-1", "object": "list", "data": data, "usage": usage})
        results = [
            {"index": n, "document": {"text": d}, "relevance_score": 0.5} for n, d in enumerate(asked["documents"])
        ]
        return self.answer(200, {"id": "rerank-1", "model": MODEL, "results": results, "usage": usage})

    def heard(self, body: bytes) -> None:
        """A transcription: how much was heard. Speech: sound."""
        if self.path.endswith("speech"):
            return self.answer(200, b"RIFF\x00\xff sound", "audio/wav")
        kind = self.headers["Content-Type"]
        assert kind.startswith("multipart/form-data; boundary="), kind
        if b'name="stream"\r\n\r\ntrue' in body:
            self.begin("text/event-stream; charset=utf-8")
            for piece in ("I ", "hear"):
                choice = {"delta": {"content": piece}, "finish_reason": None, "stop_reason": None}
                self.part(f"data: {json.dumps({'object': 'transcription.chunk', 'choices': [choice]})}\n\n".encode())
            self.part(b"data: [DONE]\n\n")
            return self.part(b"")
        return self.answer(200, {"text": f"{len(body)} bytes", "usage": {"type": "duration", "seconds": 2}})

    def begin(self, kind: str) -> None:
        """Headers of a stream."""
        self.send_response(200)
        self.send_header("Content-Type", kind)
        self.send_header("Transfer-Encoding", "chunked")
        self.end_headers()

    def part(self, data: bytes) -> None:
        """One of it; empty: the end."""
        self.wfile.write(b"%x\r\n%s\r\n" % (len(data), data))
        self.wfile.flush()

    def answer(self, status: int, said: Any, kind: str = "application/json", metadata: str = "") -> None:
        """A whole one."""
        body = said if isinstance(said, bytes) else json.dumps(said).encode()
        self.send_response(status)
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(len(body)))
        if metadata:
            self.send_header("metadata", metadata)
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *arguments: object) -> None:
        """Nothing."""


if __name__ == "__main__":
    ThreadingHTTPServer(("127.0.0.1", int(sys.argv[1])), EngineDouble).serve_forever()
