"""How much a rail carries: TCP between two nodes, for a second or two each way."""

from __future__ import annotations

import json
import socket
import threading
import time
from collections.abc import Callable

from operations.node import beats
from operations.wire.doctor import Stream, Streams
from operations.wire.fabric import Way

#: One core does not fill a rail of 100 Gbit/s.
CONNECTIONS = 4
CHUNK = 1 << 20
#: Seconds to come together, and to end after the time is up.
GRACE_S = 5.0
_SEND, _TAKE = b"S", b"T"


def serve(addresses: list[str]) -> Streams:
    """Print {"ports": one for each address} and serve until the tether ends. Listens on rails alone."""
    try:
        servers = [listen(address) for address in addresses]
    except OSError as error:
        return {"error": str(error)}
    print(json.dumps({"ports": [server.getsockname()[1] for server in servers]}), flush=True)
    beats.watch()
    beats.wait()
    return {}


def listen(address: str) -> socket.socket:
    """Take connections on a free port of an address: what the first byte wishes is done, sending or taking."""
    server = socket.create_server((address, 0), backlog=4 * CONNECTIONS)

    def accept() -> None:
        while True:
            try:
                connection, _ = server.accept()
            except OSError:
                return
            threading.Thread(target=_answer, args=(connection,), daemon=True).start()

    threading.Thread(target=accept, daemon=True).start()
    return server


def _answer(connection: socket.socket) -> None:
    with connection:
        connection.settimeout(GRACE_S)
        try:
            wish = connection.recv(1)
            _run(connection, _pour if wish == _TAKE else _drain, lambda: False)
        except OSError:
            pass


def measure(targets: list[Way], seconds: float) -> list[Stream]:
    """`targets`: [{own, address, port, device}]. For each, first to it and then from it:
    {device, address, way: out | in, gbit_s}, or `problem` where nothing came through.
    """
    told = list[Stream]()
    for target in targets:
        for way, wish in (("out", _SEND), ("in", _TAKE)):
            entry: Stream = {"device": target["device"], "address": target["address"], "way": way}
            try:
                entry["gbit_s"] = _stream(target, wish, seconds)
            except OSError as error:
                entry["problem"] = str(error) or type(error).__name__
            told.append(entry)
    return told


def _stream(target: Way, wish: bytes, seconds: float) -> float:
    where = (target["address"], target["port"])
    connections = [
        socket.create_connection(where, timeout=GRACE_S, source_address=(target["own"], 0)) for _ in range(CONNECTIONS)
    ]
    counts = [0] * CONNECTIONS
    end = time.monotonic() + seconds

    def run(number: int) -> None:
        try:
            connections[number].sendall(wish)
            counts[number] = _run(
                connections[number], _pour if wish == _SEND else _drain, lambda: time.monotonic() > end
            )
        except OSError:
            pass

    threads = [threading.Thread(target=run, args=(number,)) for number in range(CONNECTIONS)]
    begun = time.monotonic()
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    took = time.monotonic() - begun
    for connection in connections:
        connection.close()
    if not sum(counts):
        raise OSError("connections stand, and no byte comes through")
    return sum(counts) * 8 / took / 1e9


def _run(
    connection: socket.socket, step: Callable[[socket.socket, memoryview], int], is_over: Callable[[], bool]
) -> int:
    """Steps until it is over or the other side ends; how many bytes."""
    buffer, count = memoryview(bytearray(CHUNK)), 0
    try:
        while not is_over() and (number := step(connection, buffer)):
            count += number
    except OSError:
        # The other side has seen enough.
        pass
    return count


def _pour(connection: socket.socket, buffer: memoryview) -> int:
    return connection.send(buffer)


def _drain(connection: socket.socket, buffer: memoryview) -> int:
    return connection.recv_into(buffer)
