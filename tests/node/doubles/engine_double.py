"""An engine as LiteLLM sees vLLM: `python -m tests.node.doubles.engine_double PORT`. It says what a request cost, and
repeats what it refuses.

A stream has as many pieces as max_tokens; a prompt that begins with `slow` waits between them, `break` ends in the
middle, `wrong` is refused in vLLM's words, which quote the prompt.
"""

from __future__ import annotations

import json
import sys
import time
from http.server import ThreadingHTTPServer
from typing import Any

from tests.support.serving import Quiet

#: Tokens of every prompt, as this engine counts them.
PROMPT = 1000


class EngineDouble(Quiet):
    """One request."""

    protocol_version = "HTTP/1.1"

    def do_GET(self) -> None:
        """/v1/models."""
        self.answer(200, {"object": "list", "data": [{"id": "double", "object": "model"}]})

    def do_POST(self) -> None:
        """A chat, a completion, a vector or a rank."""
        asked = self.sent()
        tokens = asked.get("max_tokens") or 8
        usage = {"prompt_tokens": PROMPT, "completion_tokens": tokens, "total_tokens": PROMPT + tokens}
        if not isinstance(asked.get("messages", []), list):
            return self.answer(400, {"error": {"message": "messages: a list is wanted", "type": "Bad", "code": 400}})
        text = self.text(asked)
        if text.startswith("wrong"):
            return self.answer(400, {"error": {"message": f"[{{'input': '{text}'}}]", "type": "Bad", "code": 400}})
        if self.path.endswith("/embeddings"):
            data = [{"object": "embedding", "index": 0, "embedding": [0.5] * 8}]
            return self.answer(200, {"object": "list", "data": data, "model": "double", "usage": usage})
        if self.path.endswith("/rerank"):
            results = [
                {"index": i, "relevance_score": 0.5, "document": {"text": d}} for i, d in enumerate(asked["documents"])
            ]
            return self.answer(200, {"id": "r", "model": "double", "results": results, "usage": usage})
        is_chat = self.path.endswith("/chat/completions")
        if asked.get("stream"):
            return self.stream(
                text, tokens, usage, is_chat, bool((asked.get("stream_options") or {}).get("include_usage"))
            )
        words = {"message": {"role": "assistant", "content": "7" * tokens}} if is_chat else {"text": "7" * tokens}
        choice = {"index": 0, "finish_reason": "length", **words}
        kind = "chat.completion" if is_chat else "text_completion"
        said = {"id": "c", "object": kind, "created": 1, "model": "double", "choices": [choice], "usage": usage}
        return self.answer(200, said)

    def text(self, asked: dict[str, Any]) -> str:
        """What the prompt begins with."""
        return str(
            asked["messages"][0]["content"] if "messages" in asked else asked.get("prompt") or asked.get("input")
        )

    def stream(self, text: str, tokens: int, usage: dict[str, int], is_chat: bool, costs: bool) -> None:
        """Server-sent events; with `costs` what it cost comes last, as vLLM has it."""
        self.send_response(200)
        self.send_header("Content-Type", "text/event-stream")
        self.send_header("Connection", "close")
        self.end_headers()
        kind = "chat.completion.chunk" if is_chat else "text_completion"
        head = {"id": "s", "object": kind, "created": 1, "model": "double"}
        for number in range(tokens):
            piece = {"delta": {"role": "assistant", "content": "7"}} if is_chat else {"text": "7"}
            reason = "length" if number == tokens - 1 else None
            self.event({**head, "choices": [{"index": 0, "finish_reason": reason, **piece}]})
            if text.startswith("slow"):
                time.sleep(0.2)
            if text.startswith("break") and number == tokens // 2:
                return
        if costs:
            self.event({**head, "choices": [], "usage": usage})
        self.wfile.write(b"data: [DONE]\n\n")

    def event(self, said: Any) -> None:
        """One of a stream."""
        self.wfile.write(f"data: {json.dumps(said)}\n\n".encode())
        self.wfile.flush()

    def answer(self, status: int, said: Any) -> None:
        """JSON."""
        self.reply(json.dumps(said).encode(), status)


if __name__ == "__main__":
    ThreadingHTTPServer(("127.0.0.1", int(sys.argv[1])), EngineDouble).serve_forever()
