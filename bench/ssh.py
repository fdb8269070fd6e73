"""The way to the head for what pyinfra does not carry: forwarded ports, and a client there."""

from __future__ import annotations

import os
import socket
import subprocess
from collections.abc import Mapping, Sequence
from types import TracebackType
from typing import Any
from urllib.parse import urlsplit, urlunsplit

from bench.words import why
from operations.plan.config.refusal import Finding, Refusal


def login(data: Mapping[str, Any]) -> list[str]:
    """`ssh` to the head with what the inventory says of its connection. Raises Refusal for a password: ssh takes none
    from a program.
    """
    if data["password"]:
        remedy = "give the login a key (ssh-copy-id), or leave ssh_password out"
        raise Refusal(Finding("inventory", "engines are asked through ssh, which can't be given ssh_password", remedy))
    strict = {"yes": "yes", "no": "no", "off": "no"}.get(str(data["strict_host_key_checking"]), "accept-new")
    words = [
        "ssh",
        "-T",
        "-o",
        "BatchMode=yes",
        "-o",
        f"StrictHostKeyChecking={strict}",
        "-o",
        "ServerAliveInterval=10",
    ]
    if data["config_file"]:
        words += ["-F", os.path.expanduser(str(data["config_file"]))]
    if data["known_hosts_file"]:
        words += ["-o", f"UserKnownHostsFile={os.path.expanduser(str(data['known_hosts_file']))}"]
    if data["key"]:
        words += ["-i", os.path.expanduser(str(data["key"])), "-o", "IdentitiesOnly=yes"]
    if data["port"]:
        words += ["-p", str(data["port"])]
    return [*words, f"{data['user']}@{data['hostname']}" if data["user"] else str(data["hostname"])]


class Tunnel:
    """Ports of this machine that lead to addresses as the head sees them, as long as it is open.

    The session that stays open beside them makes both ends send each piece at once (OpenSSH sets TCP_NODELAY for those
    that have one), and ends when this process does.
    """

    def __init__(self, ssh: Sequence[str], urls: Sequence[str]) -> None:
        self._ports = {_place(url): _free_port() for url in urls}
        forwards = [word for place, port in self._ports.items() for word in ("-L", f"127.0.0.1:{port}:{place}")]
        *options, where = ssh
        argv = [*options, "-o", "ExitOnForwardFailure=yes", *forwards, where, "echo open; exec cat >/dev/null"]
        self._process = subprocess.Popen(
            argv,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            start_new_session=True,
        )
        assert self._process.stdout is not None
        if self._process.stdout.readline().strip() != "open":
            words = self._process.communicate()[1]
            remedy = f"`{' '.join(ssh)}` must work by itself"
            raise Refusal(Finding("ssh", f"no way to the engines: {why(words)}", remedy))

    def url(self, url: str) -> str:
        """The same address, from here."""
        return urlunsplit(urlsplit(url)._replace(netloc=f"127.0.0.1:{self._ports[_place(url)]}"))

    def __enter__(self) -> Tunnel:
        return self

    def __exit__(
        self, _kind: type[BaseException] | None, _error: BaseException | None, _at: TracebackType | None
    ) -> None:
        self._process.kill()
        self._process.communicate()


def _place(url: str) -> str:
    return urlsplit(url).netloc


def _free_port() -> int:
    with socket.socket() as sock:
        sock.bind(("127.0.0.1", 0))
        return int(sock.getsockname()[1])
