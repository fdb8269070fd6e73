"""The real LiteLLM before an engine whose every word a test has written."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from tests.bench.routing import doors
from tests.node.confined import contained, place
from tests.support.serving import Quiet, serving


class ScriptedDouble(Quiet):
    """An engine that answers with what lies ready, in turn: a status and bytes, after which it hangs up."""

    script: list[tuple[int, bytes]] = []
    asked: list[dict[str, Any]] = []
    #: Whether it counts tokens.
    counts = True

    def do_POST(self) -> None:
        """/tokenize: a character is a token, or there is none. Anything else: the next of the script."""
        said = self.sent()
        if self.path == "/tokenize":
            count = {"count": len(said["prompt"])} if self.counts else {}
            return self.say(200 if self.counts else 404, json.dumps(count).encode())
        self.asked.append(said)
        return self.say(*self.script.pop(0))

    def say(self, status: int, body: bytes) -> None:
        """An answer whose length nobody knows."""
        self.send_response(status)
        is_stream = body.startswith((b"data: ", b"event: "))
        self.send_header("Content-Type", "text/event-stream" if is_stream else "application/json")
        self.end_headers()
        self.wfile.write(body)


@contextmanager
def scripted_door(otherwise: Path) -> Iterator[doors.Door]:
    """Both, until the end."""
    with serving(ScriptedDouble) as url, place(otherwise) as folder:
        door = doors.litellm("balanced", [url], "double", folder, before=contained)
        yield door
        door.stop()
