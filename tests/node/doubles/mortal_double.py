"""A double of vLLM that dies: of a request with the word `poison` at once, of `slow poison` in the midst of its answer.
At `core poison` its server lives on for a moment and says that its core has died; for some seconds at `core poison that
lingers`. What others ask it answers with sixteen digits, and goes on where it is told to.

Runs as `python -m tests.node.doubles.mortal_double PORT LOG`: LOG gets a line for each request, and one for each death.
"""

from __future__ import annotations

import json
import os
import sys
import time
from http.server import ThreadingHTTPServer
from typing import Any

from tests.support.serving import Quiet

DIGITS = "0123456789abcdef"
PIECE_S = 0.15
#: Seconds for which its server outlives its core.
LINGERS_S = 5.0


class MortalDouble(Quiet):
    """Three protocols, streamed and not."""

    is_dead = False

    def do_GET(self) -> None:
        """Its health."""
        self.reply(status=503 if MortalDouble.is_dead else 200)

    def do_POST(self) -> None:
        """One answer, or the end of it."""
        body = self.rfile.read(int(self.headers["Content-Length"]))
        asked = json.loads(body)
        if "tokenize" in self.path:
            self.reply(json.dumps({"count": len(asked["prompt"])}).encode())
            return
        note(f"asked {'poison' if b'poison' in body else 'well'}")
        time.sleep(PIECE_S)
        if MortalDouble.is_dead:
            self.core_is_dead()
        elif b"core poison" in body:
            MortalDouble.is_dead = True
            self.core_is_dead()
            time.sleep(LINGERS_S if b"lingers" in body else 0)
            die()
        elif b"poison" in body and b"slow poison" not in body:
            die()
        elif asked.get("stream"):
            self.stream(asked, b"slow poison" in body)
        else:
            for _ in DIGITS:
                time.sleep(PIECE_S)
                if MortalDouble.is_dead:
                    self.core_is_dead()
                    return
            self.reply(json.dumps({"choices": [{"message": {"content": DIGITS}}]}).encode())

    def core_is_dead(self) -> None:
        """Answer 500, as vLLM does once its core has died."""
        self.reply(b'{"error": {"message": "EngineDeadError", "code": 500}}', 500)

    def stream(self, asked: dict[str, Any], dies: bool) -> None:
        """Piece by piece."""
        self.send_response(200)
        self.send_header("Content-Type", "text/event-stream")
        self.end_headers()
        last = asked["messages"][-1]
        had = len(last["content"]) if last["role"] == "assistant" else 0
        for digit in DIGITS[had:]:
            if dies and digit > "3":
                die()
            self.event({"index": 0, "delta": {"content": digit}, "finish_reason": None})
            time.sleep(PIECE_S)
        self.event({"index": 0, "delta": {}, "finish_reason": "stop"})
        self.wfile.write(b"data: [DONE]\n\n")

    def event(self, choice: dict[str, Any]) -> None:
        self.wfile.write(b"data: " + json.dumps({"id": "one", "choices": [choice]}).encode() + b"\n\n")
        self.wfile.flush()


def note(what: str) -> None:
    with open(sys.argv[2], "a") as log:
        log.write(what + "\n")


def die() -> None:
    note("died")
    os._exit(1)


if __name__ == "__main__":
    ThreadingHTTPServer(("127.0.0.1", int(sys.argv[1])), MortalDouble).serve_forever()
