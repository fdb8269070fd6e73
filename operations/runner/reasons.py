"""Why a node could not be connected to, in the owner's words, with what to do."""

from __future__ import annotations

import errno
import socket
import sys

from paramiko import AuthenticationException, BadHostKeyException, SSHException
from pyinfra.api.host import Host

from operations.plan import absence
from operations.plan.absence import Absence, absent

#: What a failed connect says of the way there.
_ERRNO = {
    errno.ECONNREFUSED: absence.REFUSED,
    errno.EHOSTUNREACH: absence.NO_ROUTE,
    errno.ENETUNREACH: absence.NO_NETWORK,
    errno.ETIMEDOUT: absence.TIMED_OUT,
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
        return absent(absence.UNKNOWN_NAME, host.name, dark=address.endswith(".local"), address=address)
    if isinstance(cause, BadHostKeyException):
        entry = address if port == 22 else f"'[{address}]:{port}'"
        remove = f"ssh-keygen {f'-f {keys} ' if keys else ''}-R {entry}"
        return absent(absence.OTHER_HOST_KEY, host.name, remove=remove)
    if isinstance(cause, AuthenticationException):
        return absent(absence.LOGIN_REFUSED, host.name, login=login)
    if "No authentication methods" in str(cause):
        return absent(absence.NO_KEY, host.name, login=login)
    if "No host key" in str(cause):
        file = keys or "~/.ssh/known_hosts"
        return absent(absence.UNKNOWN_HOST_KEY, host.name, port=port, address=address, file=file)
    if _is_mute(host, cause):
        return absent(absence.MUTE, host.name)
    if (number := _errno(cause)) in _ERRNO:
        is_macos = number == errno.EHOSTUNREACH and sys.platform == "darwin"
        kind = absence.NO_ROUTE_FROM_MACOS if is_macos else _ERRNO[number]
        return absent(kind, host.name, dark=number in _DARK)
    return absent(absence.NO_LOGIN, host.name, cause=str(cause) or type(cause).__name__, login=login)


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
