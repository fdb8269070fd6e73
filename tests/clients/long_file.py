"""A file of 600 lines, written by a tool call at 20 tokens a second: how long a client has nothing of it.

`python -m tests.clients.long_file [SECONDS OF A TOKEN]`: with one engine, with two, with one of two killed half-way.
"""

from __future__ import annotations

import http.client
import json
import sys
import tempfile
import threading
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from tests.clients.whole_door import KEY, WholeDoor, whole_door

#: About 6,000 tokens of four characters.
FILE = "".join(f"line {number:03} of a file with six words\n" for number in range(600))
SCHEMA = {"type": "object"}
#: By path: how its tools are written, and what else a request has.
PROTOCOLS: dict[str, dict[str, Any]] = {
    "/v1/chat/completions": {"tools": [{"type": "function", "function": {"name": "write", "parameters": SCHEMA}}]},
    "/v1/messages": {"tools": [{"name": "write", "input_schema": SCHEMA}], "max_tokens": 9000},
    "/v1/responses": {"tools": [{"type": "function", "name": "write", "parameters": SCHEMA}]},
}


@dataclass
class Written:
    """One stream. `longest`: seconds without an event; `first`: until the first one; `parts`: events; `end`: the last
    one.
    """

    path: str
    longest: float = 0.0
    first: float = 0.0
    parts: int = 0
    end: str = ""

    def read(self, url: str, pace: float) -> None:
        """Until its end."""
        question = f"CALL write {json.dumps({'path': 'a', 'text': FILE})} END PACE {pace}"
        asked = {"model": "double", "stream": True, **PROTOCOLS[self.path]}
        asked["input" if self.path.endswith("responses") else "messages"] = [{"role": "user", "content": question}]
        parts = urlsplit(url)
        assert parts.hostname
        connection = http.client.HTTPConnection(parts.hostname, parts.port, timeout=600)
        headers = {"Authorization": f"Bearer {KEY}", "Content-Type": "application/json"}
        last = began = time.monotonic()
        connection.request("POST", self.path, json.dumps(asked), headers)
        for line in connection.getresponse():
            if line.startswith(b"data:"):
                now = time.monotonic()
                self.first = self.first or now - began
                self.longest, last = max(self.longest, now - last), now
                self.parts, self.end = self.parts + 1, line.decode().strip()[-100:]


def write(door: WholeDoor, pace: float, each: int, kills: bool) -> Sequence[Written]:
    """`each` streams of each protocol at once."""
    streams = [Written(path) for path in PROTOCOLS for _ in range(each)]
    threads = [threading.Thread(target=stream.read, args=(door.url, pace)) for stream in streams]
    for thread in threads:
        thread.start()
    if kills:
        time.sleep(pace * len(FILE) / 4 / 2)
        door.engines[0].kill()
        time.sleep(3)
        ended = [thread for thread in threads if not thread.is_alive()]
        print(f"  one engine killed: {len(ended)} of {len(threads)} streams ended")
        again, asks = Written("/v1/chat/completions"), time.monotonic()
        thread = threading.Thread(target=again.read, args=(door.url, pace), daemon=True)
        thread.start()
        while not again.first:
            time.sleep(0.01)
        print(f"  a client that asks again then has its first part {time.monotonic() - asks:.1f} s later")
    for thread in threads:
        thread.join()
    return streams


def main(pace: float) -> None:
    """All three."""
    for engines, kills in ((1, False), (2, False), (2, True)):
        print(f"{engines} engine(s){', one killed half-way' if kills else ''}", flush=True)
        with whole_door(Path(tempfile.mkdtemp(prefix="file-")) / "door", engines) as door:
            for stream in write(door, pace, 2 if kills else 1, kills):
                print(
                    f"  {stream.path}: first part {stream.first:.1f} s, {stream.parts} parts, longest silence", end=" "
                )
                print(f"{stream.longest:.2f} s, ends with {stream.end}", flush=True)


if __name__ == "__main__":
    main(float(sys.argv[1]) if len(sys.argv) > 1 else 0.05)
