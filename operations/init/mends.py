"""What helps where a node lets no deploy in: each mend is shown as a command, and runs when the owner says yes."""

from __future__ import annotations

import os
import subprocess
import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from operations.init.knock import CONNECT_S, Knock, forget, has_key, user_of
from operations.init.login import Login, told

#: A name without a dot, or sudo would leave the file out; made under one with a dot, and tried before it counts.
SUDOERS = "/etc/sudoers.d/tandem-{user}"


@dataclass(frozen=True)
class Mend:
    """`shown`: lines before the command; `command`: what is run, as typed; `run`: True when it has worked."""

    what: str
    command: str
    run: Callable[[], bool]
    shown: tuple[str, ...] = ()


def mends(knock: Knock) -> list[Mend]:
    """What can be done from here about what kept a login out, in the order to do it; empty: nothing. Nothing is done
    yet: each Mend has its own `run`.
    """
    login = knock.login
    if knock.kind == "unknown host key":
        return accept(login)
    if knock.kind == "login":
        return [*([] if has_key() else [new_key()]), copy_key(login)]
    if knock.kind == "sudo":
        return [allow_sudo(login)]
    if knock.kind == "other host key":
        return [Mend("forget the old host key", told(forget(login)), lambda: _call(forget(login)))]
    return []


def accept(login: Login) -> list[Mend]:
    """Take the host's keys into known_hosts; the owner compares the fingerprints. Empty: the host shows none."""
    # One kind of key where the host has it. Each is a connection without a login, and sshd since OpenSSH 9.8 counts
    # those: behind some of them and two refused logins it turns this machine away for a while (PerSourcePenalties).
    for kinds in (["-t", "ed25519"], []):
        argv = ["ssh-keyscan", "-T", str(CONNECT_S), *kinds, *login.port_option, login.host]
        ran = subprocess.run(argv, capture_output=True, text=True)
        if lines := [line for line in ran.stdout.splitlines() if line and not line.startswith("#")]:
            break
    else:
        return []
    keys = "".join(f"{line}\n" for line in lines)

    def write() -> bool:
        folder = Path.home() / ".ssh"
        folder.mkdir(mode=0o700, exist_ok=True)
        # One write of whole lines: a Ctrl-C leaves all of them or none.
        with open(folder / "known_hosts", "a+b", opener=lambda path, flags: os.open(path, flags, 0o600)) as file:
            file.seek(0)
            before = file.read()
            file.write((b"" if not before or before.endswith(b"\n") else b"\n") + keys.encode())
        return True

    command = f"{told(argv)} >> ~/.ssh/known_hosts"
    what = "accept its host key (the Spark shows it by: ssh-keygen -lf /etc/ssh/ssh_host_ed25519_key.pub)"
    return [Mend(what, command, write, fingerprints(keys))]


def fingerprints(keys: str) -> tuple[str, ...]:
    """What `ssh-keygen -l` says of each key: `SHA256:... (ED25519)`, the one that is compared most often first."""
    with tempfile.NamedTemporaryFile("w", suffix=".pub") as file:
        file.write(keys)
        file.flush()
        said = subprocess.run(["ssh-keygen", "-lf", file.name], capture_output=True, text=True).stdout
    found = [line.split() for line in said.splitlines()]
    return tuple(sorted((f"{words[1]} {words[-1]}" for words in found), key=lambda each: "ED25519" not in each))


def new_key() -> Mend:
    """Make a key, where this machine has none."""
    path = Path.home() / ".ssh/id_ed25519"

    def make() -> bool:
        path.parent.mkdir(mode=0o700, exist_ok=True)
        return _call(["ssh-keygen", "-q", "-t", "ed25519", "-f", str(path)])

    return Mend("make a key, as this machine has none", "ssh-keygen -t ed25519 -f ~/.ssh/id_ed25519", make)


def copy_key(login: Login) -> Mend:
    """Give the node this machine's key; it asks for the login's password there."""
    argv = ["ssh-copy-id", *login.port_option, login.target]
    what = f"give it your key (it asks for the password of {user_of(login)} there)"
    return Mend(what, told(argv), lambda: _call(argv))


def allow_sudo(login: Login) -> Mend:
    """Sudo without a password for the login; it asks for the password once, there."""
    user = user_of(login)
    file = SUDOERS.format(user=user.replace(".", "_"))
    # visudo refuses a line that sudo could not read: a broken file would lock everybody out of sudo.
    there = (
        f"sudo sh -c 'umask 337; echo {user} ALL=\\(ALL\\) NOPASSWD: ALL > {file}.new"
        f" && visudo -qcf {file}.new && mv {file}.new {file}'"
    )
    argv = ["ssh", "-t", *login.port_option, login.target, there]
    # Nothing in it is special between these quotes.
    shown = f'{told(argv[:-1])} "{there}"'
    then = "who has this login is root there then"
    what = f"let {user} use sudo without a password: {then} (it asks for that password once)"
    return Mend(what, shown, lambda: _call(argv))


def _call(argv: list[str]) -> bool:
    """Run it where the owner sees it, and can answer."""
    try:
        return subprocess.run(argv).returncode == 0
    except FileNotFoundError:
        return False
