"""A login on a node: as the owner types it, as the inventory has it, and as OpenSSH takes it."""

from __future__ import annotations

import re
import shlex
from dataclasses import dataclass
from typing import Any

from operations.plan.config.refusal import Finding, Refusal

_USER = re.compile(r"[A-Za-z_][\w.-]*\$?")
_HOST = re.compile(r"[A-Za-z0-9]([A-Za-z0-9.-]*[A-Za-z0-9])?|[0-9A-Fa-f:]*:[0-9A-Fa-f:.]+(%[\w.-]+)?")
#: ssh's own.
PORT = 22
EXAMPLE = "write spark-1.local, 192.168.1.20 or me@spark-1.local"


@dataclass(frozen=True)
class Login:
    """`name` is what the inventory calls the node. `user`: empty is ssh's own choice. `address`: where the name is not
    enough. `data`: what else the inventory says of it, which stays as it is.
    """

    name: str
    user: str = ""
    address: str = ""
    port: int = PORT
    data: tuple[tuple[str, Any], ...] = ()

    @property
    def host(self) -> str:
        """What ssh connects to."""
        return self.address or self.name

    @property
    def target(self) -> str:
        """`me@spark-1.local`, as ssh and ssh-copy-id take it."""
        return f"{self.user}@{self.host}" if self.user else self.host

    @property
    def port_option(self) -> list[str]:
        """`-p PORT` for a command line of ssh; empty where the port is ssh's own, 22."""
        return [] if self.port == PORT else ["-p", str(self.port)]

    def spelled(self, user: str = "") -> str:
        """As it can be typed again; `user`: the login that is said beside it."""
        before = f"{self.user}@" if self.user and self.user != user else ""
        return f"{before}{self.name}{'' if self.port == PORT else f':{self.port}'}"

    def entry(self) -> tuple[str, dict[str, Any]]:
        """Its line in the inventory."""
        own: dict[str, Any] = {}
        if self.address:
            own["ssh_hostname"] = self.address
        if self.user:
            own["ssh_user"] = self.user
        if self.port != PORT:
            own["ssh_port"] = self.port
        return self.name, {**own, **dict(self.data)}


def check_user(user: str) -> None:
    """Raises Refusal where it is no login's name: ssh would take `-x` for an option."""
    if not _USER.fullmatch(user):
        raise Refusal(Finding("--user", f"`{user}` is no login's name", EXAMPLE))


def parse(text: str, user: str = "") -> Login:
    """What was typed: a name or an address, perhaps with a login before it and a port behind it. Raises Refusal.

    `user`: the login where the text has none.
    """
    before, at, host = text.strip().rpartition("@")
    port = PORT
    if host.count(":") == 1 and re.fullmatch(r"\d{1,5}", host.partition(":")[2]):
        host, _, number = host.partition(":")
        port = int(number)
    if at and not _USER.fullmatch(before):
        raise Refusal(Finding("nodes", f"`{text}`: `{before}` is no login's name", EXAMPLE))
    if not _HOST.fullmatch(host) or not 0 < port < 65536:
        raise Refusal(Finding("nodes", f"`{text}` is no host's name or address", EXAMPLE))
    return Login(host, before or user, port=port)


def parse_all(text: str, user: str = "") -> list[Login]:
    """Several, with commas or blanks between them; raises Refusal, also where one is there twice."""
    found = [parse(each, user) for each in text.replace(",", " ").split()]
    if not found:
        raise Refusal(Finding("nodes", "no node is named", EXAMPLE))
    check_once(found)
    return found


def check_once(logins: list[Login]) -> None:
    """Raises Refusal where a host is there twice."""
    seen: set[tuple[str, int]] = set()
    for each in logins:
        key = each.host.lower(), each.port
        if key in seen:
            raise Refusal(Finding("nodes", f"`{each.host}` is there twice", "name each Spark once, the head first"))
        seen.add(key)


def told(argv: list[str]) -> str:
    """A command as an owner would type it."""
    return shlex.join(argv)
