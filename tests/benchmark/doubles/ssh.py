"""A double of the head's sshd, for the real ssh client: lets everybody in, runs commands here, forwards ports."""

from __future__ import annotations

import socket
import subprocess
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress

import paramiko

_OK = paramiko.common.OPEN_SUCCEEDED


class _Head(paramiko.ServerInterface):
    """One connection."""

    def __init__(self) -> None:
        self.places: dict[int, tuple[str, int]] = {}
        self.commands: dict[int, bytes] = {}

    def check_auth_publickey(self, _username: str, _key: paramiko.PKey) -> int:
        return paramiko.common.AUTH_SUCCESSFUL

    def get_allowed_auths(self, _username: str) -> str:
        return "publickey"

    def check_channel_request(self, _kind: str, _number: int) -> int:
        return _OK

    def check_channel_exec_request(self, channel: paramiko.Channel, command: bytes) -> bool:
        self.commands[channel.get_id()] = command
        threading.Thread(target=_execute, args=(channel, command), daemon=True).start()
        return True

    def check_channel_direct_tcpip_request(self, number: int, _origin: object, destination: tuple[str, int]) -> int:
        self.places[number] = destination
        return _OK


def _execute(channel: paramiko.Channel, command: bytes) -> None:
    process = subprocess.Popen(["sh", "-c", command.decode()], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    assert process.stdin is not None and process.stdout is not None
    into, out = process.stdin, process.stdout

    def feed() -> None:
        while data := channel.recv(65536):
            into.write(data)
            into.flush()
        into.close()

    threading.Thread(target=feed, daemon=True).start()
    while data := out.read1(65536):  # type: ignore[attr-defined]
        channel.sendall(data)
    channel.send_exit_status(process.wait())
    channel.close()


def _forward(channel: paramiko.Channel, place: tuple[str, int]) -> None:
    with socket.create_connection(place) as sock:

        def back() -> None:
            while data := sock.recv(65536):
                channel.sendall(data)
            # The other end may be gone by now.
            with suppress(EOFError):
                channel.close()

        threading.Thread(target=back, daemon=True).start()
        while data := channel.recv(65536):
            sock.sendall(data)
        sock.shutdown(socket.SHUT_WR)


def _serve(sock: socket.socket, key: paramiko.PKey) -> None:
    transport = paramiko.Transport(sock)
    transport.add_server_key(key)
    head = _Head()
    transport.start_server(server=head)
    while transport.is_active():
        channel = transport.accept(1)
        if channel is not None and channel.get_id() in head.places:
            place = head.places.pop(channel.get_id())
            threading.Thread(target=_forward, args=(channel, place), daemon=True).start()


@contextmanager
def head() -> Iterator[int]:
    """Its port, as long as the body runs."""
    key = paramiko.RSAKey.generate(2048)
    with socket.create_server(("127.0.0.1", 0)) as listening:

        def accept() -> None:
            while True:
                try:
                    sock, _ = listening.accept()
                except OSError:
                    return
                threading.Thread(target=_serve, args=(sock, key), daemon=True).start()

        threading.Thread(target=accept, daemon=True).start()
        yield listening.getsockname()[1]
