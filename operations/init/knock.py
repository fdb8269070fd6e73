"""Tries a login with OpenSSH, as the owner would, and says why it does not let us in."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from operations.init.login import PORT, Login, told
from operations.init.seen import Seen, read
from operations.plan.absence import LOCAL_NETWORK
from operations.plan.config.plain import plain

#: Seconds for the connection, and for all of it: a node that swaps or boots may take long.
CONNECT_S, ALL_S = 6, 30
LOOK = Path(__file__).parent / "look.sh"
#: Where a key may lie that ssh shows by itself.
KEYS = ("id_ed25519", "id_ecdsa", "id_rsa", "id_ed25519_sk", "id_ecdsa_sk")

#: What stands in the way. `away`: nothing answers, so nothing can be mended from here.
Kind = Literal["", "away", "unknown host key", "other host key", "login", "sudo", "other"]


@dataclass(frozen=True)
class Knock:
    """What came of it: `seen` of a node that let us in; `kind` and `problem`, what stands in the way, and `remedy`,
    what the owner can do.
    """

    login: Login
    seen: Seen | None = None
    kind: Kind = ""
    problem: str = ""
    remedy: str = ""

    def __str__(self) -> str:
        return f"{self.login.name} {self.problem}; {self.remedy}"


def knock(login: Login) -> Knock:
    """Log in and look. It asks nothing: no password, and no word about a host key."""
    options = ["BatchMode=yes", f"ConnectTimeout={CONNECT_S}", "StrictHostKeyChecking=yes", "NumberOfPasswordPrompts=0"]
    argv = ["ssh", *(word for each in options for word in ("-o", each)), *login.at_port, login.target, "sh -s"]
    try:
        ran = subprocess.run(
            argv,
            input=LOOK.read_text(),
            capture_output=True,
            text=True,
            errors="replace",
            timeout=ALL_S,
            env={**os.environ, "LC_ALL": "C"},
        )
    except FileNotFoundError:
        return Knock(login, None, "other", "can't be tried: this machine has no ssh", "install OpenSSH's client")
    except subprocess.TimeoutExpired:
        problem, remedy = "takes the connection and then says nothing", "try again in a minute: it boots, or swaps"
        return Knock(login, None, "away", problem, remedy)
    seen = read(ran.stdout)
    if seen and not seen.sudo:
        remedy = "let the login use sudo without a password"
        return Knock(login, seen, "sudo", f"wants a password for sudo of {user_of(login)}", remedy)
    if seen:
        return Knock(login, seen)
    return Knock(login, None, *why(login, ran.stderr))


def user_of(login: Login) -> str:
    """Whom the login is of: ssh's own choice where it says none."""
    return login.user or settings(login).get("user", "root")


def settings(login: Login) -> dict[str, str]:
    """What ssh makes of a login by its configuration (`ssh -G`): `user`, `hostname`, `port`, `proxyjump` ...; a name
    in ~/.ssh/config may be of another address than anybody else makes of it. Empty: it can't be asked.
    """
    try:
        told_ = subprocess.run(["ssh", "-G", *login.at_port, login.target], capture_output=True, text=True)
    except FileNotFoundError:
        return {}
    return {name: value for name, _, value in (line.partition(" ") for line in told_.stdout.splitlines())}


def why(login: Login, said: str) -> tuple[Kind, str, str]:
    """kind, problem and remedy of what ssh said in its own words."""
    text = said.lower()
    if "identification has changed" in text or "possible dns spoofing" in text:
        return (
            "other host key",
            "shows another host key than the known one",
            (f"if it was installed anew: {told(forget(login))}; if not, another machine answers in its name"),
        )
    if "host key verification failed" in text or "no matching host key" in text:
        return "unknown host key", "has a host key that is not known here", "compare its fingerprint and accept it"
    if "permission denied" in text or "too many authentication failures" in text:
        return (
            "login",
            f"refuses the login {user_of(login)}",
            (f"ssh-copy-id {login.target} gives it your key; or name another login (me@{login.name})"),
        )
    for words, problem, remedy in _AWAY:
        if re.search(words, text):
            return "away", problem.format(host=login.host), remedy
    last = next((line.strip() for line in reversed(said.splitlines()) if line.strip()), "ssh said nothing")
    return "other", f"can't be logged in to ({plain(last)})", f"{told(['ssh', *login.at_port, login.target])} must work"


_ON = "switch it on (a Spark that sleeps wakes at its power button), or look at its network cable"
_ADDRESS = "or name its address: `--nodes 192.168.1.41,192.168.1.42` (your router lists it)"
_NO_ROUTE = f"{_ON}; {LOCAL_NETWORK}" if sys.platform == "darwin" else _ON
_AWAY = (
    (
        "could not resolve|not known|name resolution",
        "does not answer: nobody has the name {host}",
        f"{_ON}; {_ADDRESS}",
    ),
    ("connection refused", "does not answer (connection refused)", "on it: sudo systemctl enable --now ssh"),
    ("no route to host|host is down", "does not answer (no route to it)", _NO_ROUTE),
    ("network is unreachable", "can't be reached: this machine has no network", "connect this machine to your network"),
    ("timed out|timeout", "does not answer (timed out)", _ON),
    (
        "connection (reset|closed)",
        "closes the connection at once",
        "try again in a minute: it boots, or its sshd turns away who was refused some times",
    ),
)


def forget(login: Login) -> list[str]:
    """The command that takes a host's keys out of known_hosts."""
    return ["ssh-keygen", "-R", login.host if login.port == PORT else f"[{login.host}]:{login.port}"]


def has_key() -> bool:
    """Whether this machine has a key to show: a file where ssh looks, or one in its agent."""
    if any((Path.home() / ".ssh" / name).is_file() for name in KEYS):
        return True
    try:
        return subprocess.run(["ssh-add", "-l"], capture_output=True).returncode == 0
    except FileNotFoundError:
        return False
