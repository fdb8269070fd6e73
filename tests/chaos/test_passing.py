"""What is told of a door that is shut for a while."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

from tests.chaos.passing import passing


class DoorDouble(BaseHTTPRequestHandler):
    """Says that it is up, or down."""

    status = 200

    def do_GET(self) -> None:
        self.send_response(type(self).status)
        self.end_headers()

    def log_message(self, *_words: object) -> None:
        pass


@contextmanager
def served(port: int = 0) -> Iterator[int]:
    server = ThreadingHTTPServer(("127.0.0.1", port), DoorDouble)
    thread = threading.Thread(target=server.serve_forever, args=(0.05,))
    thread.start()
    try:
        yield server.server_port
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


def test_the_longest_time_in_which_nothing_passed_is_told() -> None:
    with served() as port, passing(f"http://127.0.0.1:{port}/v1") as door:
        time.sleep(1)
        before = door.shut_s
        DoorDouble.status = 503
        time.sleep(2)
        DoorDouble.status = 200
        time.sleep(1)
    assert before < 1 and 1.9 < door.shut_s < 4


def test_a_door_that_stays_shut_is_told_at_the_end() -> None:
    with served() as port:
        pass
    with passing(f"http://127.0.0.1:{port}/v1") as door:
        time.sleep(1)
    assert door.shut_s >= 1
