"""A double of a LiteLLM behind the proxy: streams, and a pulse. `litellm_double.py NAME SOCKET PULSE`.."""

from __future__ import annotations

import json
import sys
import threading
import time
from http.server import BaseHTTPRequestHandler
from pathlib import Path
from socketserver import ThreadingMixIn, UnixStreamServer

#: Seconds between two pieces of a stream.
PIECE_S = 0.1


class Double(BaseHTTPRequestHandler):
    """GET: the headers that arrived. POST {"pieces": n}: a stream of so many."""

    protocol_version = "HTTP/1.1"
    under_way = 0
    lock = threading.Lock()

    def do_GET(self) -> None:
        said = json.dumps({name.lower(): value for name, value in self.headers.items()}).encode()
        self.send_response(200)
        self.send_header("Content-Length", str(len(said)))
        self.end_headers()
        self.wfile.write(said)

    def do_POST(self) -> None:
        with Double.lock:
            Double.under_way += 1
        try:
            wanted = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
            self.send_response(200)
            self.send_header("Transfer-Encoding", "chunked")
            self.end_headers()
            for number in range(wanted["pieces"]):
                piece = f"{sys.argv[1]}{number} ".encode()
                self.wfile.write(b"%x\r\n%s\r\n" % (len(piece), piece))
                time.sleep(PIECE_S)
            self.wfile.write(b"0\r\n\r\n")
        finally:
            with Double.lock:
                Double.under_way -= 1

    def log_message(self, format: str, *args: object) -> None:
        """Nothing."""


class Pulse(Double):
    """What files/litellm/pulse.py says."""

    def do_GET(self) -> None:
        said = str(Double.under_way).encode()
        self.send_response(200)
        self.send_header("Content-Length", str(len(said)))
        self.end_headers()
        self.wfile.write(said)


class Listener(ThreadingMixIn, UnixStreamServer):
    """Anew where one that was killed has left its socket."""

    daemon_threads, request_queue_size = True, 128

    def server_bind(self) -> None:
        place = Path(str(self.server_address))
        place.unlink(missing_ok=True)
        super().server_bind()
        # In the folder of a test the proxy's user comes as a stranger.
        place.chmod(0o666)


if __name__ == "__main__":
    threading.Thread(target=Listener(sys.argv[3], Pulse).serve_forever, daemon=True).start()
    Listener(sys.argv[2], Double).serve_forever()
