"""Why a node could not be connected to, in the owner's words, with what to do."""

from __future__ import annotations

import errno
import socket

from paramiko import AuthenticationException, BadHostKeyException, SSHException
from pyinfra.api.host import Host

from operations.plan.absence import Absence

SWITCH_ON = "switch it on, or look at its network cable"
#: What a failed connect says of the way there.
_ERRNO = {
    errno.ECONNREFUSED: (
        "does not answer (connection refused)",
        "it is on, without an ssh server: wait until it has booted, or `sudo systemctl enable --now ssh` there",
    ),
    errno.EHOSTUNREACH: ("does not answer (no route to host)", SWITCH_ON),
    errno.ENETUNREACH: ("does not answer (network unreachable)", "look at this machine's own network"),
    errno.ETIMEDOUT: ("does not answer (timed out)", SWITCH_ON),
}
#: Of these, nothing at all comes from the node.
_DARK = (errno.EHOSTUNREACH, errno.ETIMEDOUT)


def explain(host: Host, cause: BaseException) -> Absence:
    """`cause`: what the connection failed with; a TimeoutError where it took too long."""
    address = str(host.data.get("ssh_hostname") or host.name)
    login = f"{user}@{address}" if (user := host.data.get("ssh_user")) else address
    port, keys = int(host.data.get("ssh_port") or 22), host.data.get("ssh_known_hosts_file")
    if isinstance(cause, socket.gaierror):
        # A node itself answers for its .local name: this is what one that is off looks like.
        why = f"does not answer (the name {address} is not known)"
        remedy = "switch it on; if it is on, write its address into the inventory instead of the name"
        return Absence(host.name, why, remedy, dark=address.endswith(".local"))
    if isinstance(cause, BadHostKeyException):
        why = "shows another host key than the known one"
        entry = address if port == 22 else f"'[{address}]:{port}'"
        remove = f"ssh-keygen {f'-f {keys} ' if keys else ''}-R {entry}"
        remedy = f"if it was installed anew, {remove} and try again; if not, another machine answers in its name"
    elif isinstance(cause, AuthenticationException):
        why, remedy = f"refuses the login {login}", f"ssh-copy-id {login} (ssh-add, where the key has a passphrase)"
    elif "No authentication methods" in str(cause):
        why, remedy = f"refuses the login {login}", f"here is no key to show: ssh-keygen, then ssh-copy-id {login}"
    elif "No host key" in str(cause):
        why = "has a host key that is not known here"
        remedy = f"ssh-keyscan -p {port} {address} >> {keys or '~/.ssh/known_hosts'}"
    elif _is_mute(host, cause):
        why = "takes the connection and then says nothing"
        remedy = (
            "try again in a minute: it boots, loads a model, or waits for a touch of your key; if it stays so, it has "
            "no memory left: look at its screen"
        )
    elif (number := _errno(cause)) in _ERRNO:
        why, remedy = _ERRNO[number]
        return Absence(host.name, why, remedy, dark=number in _DARK)
    else:
        why, remedy = f"can't be logged in to ({str(cause) or type(cause).__name__})", f"ssh {login} must work"
    return Absence(host.name, why, remedy)


def _is_mute(host: Host, cause: BaseException) -> bool:
    """Whether it took too long behind the connection itself: no banner, no keys, no answer to the login."""
    if isinstance(cause, SSHException | EOFError):
        return True
    return isinstance(cause, TimeoutError) and took(host)


def took(host: Host) -> bool:
    """Whether a node has taken the connection that is tried: there is something to shake hands over."""
    client = getattr(host.connector, "client", None)
    return client is not None and client.get_transport() is not None


def _errno(cause: BaseException) -> int:
    """The error's number; 0: not a known one. With several addresses the one that got furthest counts.

    A refusal tells more than a silence.
    """
    several = getattr(cause, "errors", None)
    numbers = [error.errno for error in several.values()] if several else [getattr(cause, "errno", None)]
    known = [number for number in _ERRNO if number in numbers]
    return known[0] if known else 0
