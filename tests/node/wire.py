"""A TCP connection that can be cut, or have a byte flipped, at an exact place of what comes back through it."""

from __future__ import annotations

import socket
import threading
from collections.abc import Callable

CHUNK = 16384


class Wire:
    """Forwards connections on `port` to `target`; `at_byte` calls something when so many bytes have come back."""

    def __init__(self, port: int, target: int) -> None:
        self.target = target
        self.passed = 0
        self._at: int | None = None
        self._then: Callable[[], None] = lambda: None
        self._flip: int | None = None
        self._is_cut = False
        self._lock = threading.Lock()
        self._server = socket.create_server(("127.0.0.1", port))
        threading.Thread(target=self._accept, daemon=True).start()

    def at_byte(self, number: int, then: Callable[[], None]) -> None:
        """Call `then` once, before byte `number` (counted from now on) is passed."""
        self.passed, self._at, self._then = 0, number, then

    def flip(self, number: int) -> None:
        """Invert byte `number`, counted from now on."""
        self.passed, self._flip = 0, number

    def cut(self) -> None:
        """Nothing goes through any more."""
        self._is_cut = True

    def heal(self) -> None:
        """It is whole again."""
        self._is_cut, self._at, self._flip = False, None, None

    def close(self) -> None:
        """No more connections."""
        # Wakes the thread that accepts; closing alone would leave it, and the port taken.
        self._server.shutdown(socket.SHUT_RDWR)
        self._server.close()

    def _accept(self) -> None:
        while True:
            try:
                client, _ = self._server.accept()
            except OSError:
                return
            try:
                server = socket.create_connection(("127.0.0.1", self.target))
            except OSError:
                client.close()
                continue
            for source, sink, back in ((client, server, False), (server, client, True)):
                threading.Thread(target=self._pump, args=(source, sink, back), daemon=True).start()

    def _pump(self, source: socket.socket, sink: socket.socket, back: bool) -> None:
        try:
            while data := source.recv(CHUNK):
                if back:
                    data = self._touched(data)
                if self._is_cut:
                    break
                sink.sendall(data)
        except OSError:
            pass
        finally:
            for end in (source, sink):
                # The other thread's recv ends with it.
                try:
                    end.shutdown(socket.SHUT_RDWR)
                except OSError:
                    pass
                end.close()

    def _touched(self, data: bytes) -> bytes:
        with self._lock:
            start, self.passed = self.passed, self.passed + len(data)
            if self._flip is not None and start <= self._flip < self.passed:
                flipped = bytearray(data)
                flipped[self._flip - start] ^= 0xFF
                data, self._flip = bytes(flipped), None
            if self._at is not None and self.passed > self._at:
                self._at = None
                self._then()
        return data
