"""Questions over HTTP to what listens on a socket of this node's, or on a port.

Programs that stay on nodes have a copy beside them (operations/plan): so it needs nothing of Tandem's.
"""

from __future__ import annotations

import http.client
import socket
import urllib.error
import urllib.request

#: How the URL of a socket begins: `unix:SOCKET`, with `:PATH` behind it where that is not `/`.
SCHEME = "unix:"
#: The node's own way: the opener that urllib makes by itself obeys the environment's proxies.
_OPENER = urllib.request.build_opener(urllib.request.ProxyHandler({}))


class _OverSocket(http.client.HTTPConnection):
    def __init__(self, path: str, timeout_s: float) -> None:
        super().__init__("localhost", timeout=timeout_s)
        self._path = path

    def connect(self) -> None:
        self.sock = socket.socket(socket.AF_UNIX)
        self.sock.settimeout(self.timeout)
        self.sock.connect(self._path)


def opened(url: str, timeout_s: float) -> http.client.HTTPResponse:
    """The answer to a GET, to be read and closed. Raises OSError (HTTPError for a status from 400 on), HTTPException,
    and ValueError for what is no URL.
    """
    if not url.startswith(SCHEME):
        answer: http.client.HTTPResponse = _OPENER.open(url, timeout=timeout_s)
        return answer
    path, _, target = url.removeprefix(SCHEME).partition(":")
    connection = _OverSocket(path, timeout_s)
    try:
        # The answer keeps the socket that it is read from.
        connection.request("GET", target or "/", headers={"Connection": "close"})
        answer = connection.getresponse()
    except BaseException:
        connection.close()
        raise
    if answer.status >= 400:
        raise urllib.error.HTTPError(url, answer.status, answer.reason, answer.headers, answer)
    return answer


def joined(url: str, path: str) -> str:
    """A path behind the URL of a server."""
    return f"{url}:{path}" if url.startswith(SCHEME) else f"{url}{path}"
