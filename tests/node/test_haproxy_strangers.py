"""What somebody without a key can have of the real HAProxy, configured as a deploy renders it."""

from __future__ import annotations

import json
import re
import socket
import time
import urllib.error
import urllib.request
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, suppress
from pathlib import Path

import pytest

from operations.node.door.speaking import opened
from operations.plan.services.proxy_service import KEY_HEADERS
from tests.node.confined import placed
from tests.node.test_haproxy import QUICK, SLOW, Proxy
from tests.plan.samples import ROOT

#: How a connection begins that speaks HTTP/2 without having agreed on it, with an empty frame of settings.
PREFACE = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + b"\0\0\0\4\0\0\0\0\0"
#: Seconds in which who is refused at once has an answer, on a machine that has little time.
AT_ONCE = 5


@pytest.fixture(scope="module")
def proxy(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Proxy]:
    with placed(lambda folder: Proxy(folder, {QUICK: SLOW}), tmp_path_factory.mktemp("proxy")) as made:
        yield made


def answer(proxy: Proxy, said: bytes) -> bytes:
    """All that comes back until HAProxy ends the connection, or is silent."""
    with socket.create_connection(("127.0.0.1", proxy.port), AT_ONCE) as stranger:
        stranger.settimeout(AT_ONCE)
        stranger.sendall(said)
        found = b""
        try:
            while part := stranger.recv(65536):
                found += part
                if b"\r\n\r\n" in found and b"}}" in found:
                    break
        except (TimeoutError, ConnectionResetError):
            pass
    return found


@pytest.mark.parametrize("method", ["POST", "OPTIONS"])
@pytest.mark.parametrize("body", ["Content-Length: 400000", "Transfer-Encoding: chunked"])
def test_a_body_without_a_key_is_not_waited_for(proxy: Proxy, method: str, body: str) -> None:
    began = time.monotonic()
    said = answer(proxy, f"{method} /v1/chat/completions HTTP/1.1\r\nHost: x\r\n{body}\r\n\r\n".encode())
    assert said.startswith(b"HTTP/1.1 401 ") and time.monotonic() - began < AT_ONCE
    assert b"www-authenticate: bearer" in said.lower()
    assert json.loads(said.partition(b"\r\n\r\n")[2])["error"]["code"] == "invalid_api_key"


def test_a_browser_may_ask_without_a_key_whether_it_may_ask(proxy: Proxy) -> None:
    asked = urllib.request.Request(f"{proxy.url}/v1/chat/completions", method="OPTIONS")
    try:
        status = urllib.request.urlopen(asked, timeout=AT_ONCE).status
    except urllib.error.HTTPError as refused:
        status = refused.code
    assert status != 401


def test_http_2_is_not_spoken(proxy: Proxy) -> None:
    # A frame of settings has its kind, 4, in its fourth byte.
    assert answer(proxy, PREFACE)[3:4] != b"\4"


def test_a_method_that_is_none_is_refused_and_not_logged(proxy: Proxy) -> None:
    word = "SECRET" * 50
    said = answer(proxy, f"{word} /v1/models HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer y\r\n\r\n".encode())
    assert said.startswith(b"HTTP/1.1 405 ")
    assert proxy.stream(1)
    assert "SECRET" not in proxy.log.read_text()


def still_open(held: Sequence[socket.socket]) -> int:
    """How many of these connections HAProxy has not ended; all are closed here."""
    count = 0
    for each in held:
        each.setblocking(False)
        try:
            count += each.recv(1) != b""
        except BlockingIOError:
            count += 1
        except ConnectionResetError:
            pass
        each.close()
    return count


def test_a_host_is_bounded_over_ipv6_too(tmp_path: Path) -> None:
    with placed(
        lambda folder: Proxy(folder, {"gt 64": "gt 4", "bind 127.0.0.1:": "bind [::1]:", QUICK: SLOW}), tmp_path
    ) as proxy:
        held = list[socket.socket]()
        for _ in range(12):
            with suppress(ConnectionResetError):
                held.append(socket.create_connection(("::1", proxy.port), 5))
        time.sleep(0.5)
        # Two of HAProxy's threads that count at once may each let one too many in.
        assert 4 <= still_open(held) <= 6


def test_who_is_on_the_node_takes_no_connections_of_clients(tmp_path: Path) -> None:
    # Of all connections together there are 130.
    with placed(lambda folder: Proxy(folder, {"maxconn 2100": "maxconn 130", QUICK: SLOW}), tmp_path) as proxy:
        held = [socket.socket(socket.AF_UNIX) for _ in range(150)]
        for each in held:
            each.connect(str(proxy.sockets / "proxy.sock"))
        assert proxy.stream(1)
        time.sleep(3)
        # Those that said nothing were let go.
        assert opened(proxy.asked, AT_ONCE).status == 200
        for each in held:
            each.close()


def test_haproxy_and_the_door_look_for_a_key_in_the_same_headers() -> None:
    door = (ROOT / "files/litellm/door.py").read_text()
    block = door.partition("KEY_HEADERS = (")[2].partition(")")[0]
    assert set(re.findall(r'b"([a-z-]+)"', block)) == set(KEY_HEADERS)


def test_who_is_on_the_node_is_one_host_and_leaves_connections_to_others(tmp_path: Path) -> None:
    """By whatever addresses of loopback: there are sixteen million."""
    with placed(lambda folder: Proxy(folder, {"gt 1936": "gt 20", QUICK: SLOW}, bind="all"), tmp_path) as proxy:
        held = []
        for number in range(30):
            with suppress(OSError):
                source = (f"127.0.0.{2 + number}", 0)
                held.append(socket.create_connection(("127.0.0.1", proxy.port), AT_ONCE, source))
        time.sleep(1)
        # Two of HAProxy's threads that count at once may each let one too many in.
        assert 18 <= still_open(held) <= 22


def test_a_body_that_does_not_come_takes_no_place(proxy: Proxy) -> None:
    """There are twelve, and whether a key is one LiteLLM's door knows."""
    begin = b"POST /v1/chat HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer made-up\r\nContent-Length: 9\r\n\r\n"
    with ExitStack() as held:
        for _ in range(20):
            stranger = held.enter_context(socket.create_connection(("127.0.0.1", proxy.port), AT_ONCE))
            stranger.sendall(begin)
        # HAProxy has read them by then.
        time.sleep(0.5)
        assert proxy.stream(1)
