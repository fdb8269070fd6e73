"""What this node has to say in Prometheus' format: what nobody else knows, and what runs here says of itself.

`GET /metrics` on one address, which is the fabric's or loopback's: nobody needs a key there, so nobody else gets there.
A scrape looks at everything once and at the same time, for three seconds at most; who asks again within a second gets
the same answer. What a machine can't say is left out, and is never 0. `GET /events.json` is for Tandem's page
(happened.py).

Runs on the node as `exporter.py SPEC`; exporter.json beside it has

- `address`, `port`: where it listens
- `facts`: what facts.py is asked for (see there)
- `passed`: {name: {url, names, model}} of programs whose own metrics are passed on; `names`: a pattern of those that
  are; `model`: of an engine, what clients call its model
"""

from __future__ import annotations

import json
import sys
import threading
import time
from functools import partial
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import TYPE_CHECKING

import facts
import happened
import passed
from background_call import BackgroundCall
from text import Sample, rendered

if TYPE_CHECKING:
    from operations.wire.specs import ExporterSpec

#: Seconds for which an answer is good.
GOOD_S = 1.0
#: Seconds for a scrape, whatever hangs: Tandem's page takes a node for dead after five.
SCRAPE_S = 3.0
#: Connections at once; a scrape needs one.
MOST = 8


class Exporter:
    """One answer of a kind at a time, for all who ask. A journal that is slow keeps no scrape waiting."""

    def __init__(self, wanted: ExporterSpec) -> None:
        self._facts = facts.Facts(wanted["facts"])
        self._others = {
            name: BackgroundCall(partial(passed.on, name, **each)) for name, each in wanted["passed"].items()
        }
        self._models = {name: each.get("model", "") for name, each in wanted["passed"].items()}
        self._lock, self._events_lock = threading.Lock(), threading.Lock()
        self._made, self._text = 0.0, b""

    def text(self) -> bytes:
        """As Prometheus reads it."""
        with self._lock:
            if not self._text or time.monotonic() - self._made > GOOD_S:
                began = time.monotonic()
                self._facts.begin()
                for other in self._others.values():
                    other.begin()
                samples = self._facts.samples(began + SCRAPE_S)
                others = [self._given(name, began + SCRAPE_S) for name in self._others]
                samples += [sample for each in others for sample in each.samples]
                took = Sample("exporter_seconds", "What this answer took.", time.monotonic() - began)
                self._text = (rendered([*samples, took]) + passed.merged(others)).encode()
                self._made = time.monotonic()
            return self._text

    def _given(self, name: str, until: float) -> passed.Passed:
        """Whatever another program says, or does not, the rest is told."""
        try:
            return self._others[name].answer(until)
        except Exception:
            return passed.silent(name, self._models[name])

    def events(self) -> bytes:
        """For Tandem's page."""
        with self._events_lock:
            return happened.as_json()


def handler(exporter: Exporter) -> type[BaseHTTPRequestHandler]:
    """Answers one path."""
    free = threading.BoundedSemaphore(MOST)

    class Handler(BaseHTTPRequestHandler):
        timeout = 10

        def do_GET(self) -> None:
            path = self.path.partition("?")[0]
            if path not in ("/metrics", "/events.json"):
                return self._say(404, b"there is /metrics\n")
            if not free.acquire(blocking=False):
                return self._say(503, b"busy\n")
            try:
                return self._say(200, exporter.text() if path == "/metrics" else exporter.events())
            finally:
                free.release()

        def _say(self, status: int, body: bytes) -> None:
            self.send_response(status)
            self.send_header("Content-Type", "text/plain; version=0.0.4; charset=utf-8")
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, format: str, *arguments: object) -> None:
            """A line every few seconds says nothing."""

    return Handler


def main() -> int:
    """Listen, for ever; an address that is not there yet is waited for."""
    wanted: ExporterSpec = json.loads(Path(__file__).with_name("exporter.json").read_text())
    place, said = (wanted["address"], wanted["port"]), ""
    while True:
        try:
            server = ThreadingHTTPServer(place, handler(Exporter(wanted)))
        except OSError as error:
            if str(error) != said:
                said = str(error)
                print(f"tandem: can't listen on {place[0]}:{place[1]} yet: {said}", file=sys.stderr, flush=True)
            time.sleep(5)
            continue
        server.daemon_threads = True
        server.serve_forever()


if __name__ == "__main__":
    sys.exit(main())
