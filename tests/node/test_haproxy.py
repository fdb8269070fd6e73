"""The real HAProxy, configured as a deploy renders it, before two doubles of LiteLLM that are stopped and killed."""

from __future__ import annotations

import hashlib
import http.client
import json
import re
import shutil
import signal
import socket
import subprocess
import sys
import threading
import time
import urllib.error
import urllib.request
from collections.abc import Iterator, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from operations.node.door import drained
from operations.node.door.speaking import opened
from operations.paths import LITELLM, PROXY, PROXY_CONFIG, PROXY_LOADED, PROXY_RUN, PROXY_USER, SOCKETS
from tests.node.confined import IS_ROOT, behind, placed
from tests.node.shipped import load
from tests.plan.samples import plan
from tests.support.ports import free_ports
from tests.support.waiting import until

DOUBLE = Path(__file__).parent / "doubles/litellm_double.py"
#: The doubles behind HAProxy ask for none.
KEY = {"Authorization": "Bearer sk-any"}
#: What the configuration has, and what a test can wait for.
SLOW, QUICK = "timeout http-request 30s", "timeout http-request 1s"


class Proxy:
    """HAProxy and the two behind it."""

    def __init__(self, folder: Path, changes: Mapping[str, str] | None = None, bind: str = "loopback") -> None:
        self.port, self.folder = free_ports(1), folder
        self.sockets = folder / "sockets"
        self.asked = f"unix:{self.sockets}/proxy.sock:/health/liveliness"
        few: dict[str, Any] = {"proxy_body_mib": 1, "proxy_requests": 12, "proxy_bind": bind}
        mine = plan(topology="solo", proxy_port=self.port, **few).head.container(PROXY)
        assert mine
        files = {Path(file.path).name: file.content for file in mine.files}
        assert SLOW in files["haproxy.cfg"]
        self.run, self.admin, self.config = folder / "run", str(folder / "run/admin.sock"), folder / "haproxy.cfg"
        text = files["haproxy.cfg"].replace(PROXY_RUN, str(self.run)).replace(SOCKETS, str(self.sockets))
        text = text.replace(SLOW, QUICK).replace("wait-for-body time 30s", "wait-for-body time 1s")
        for old, new in (changes or {}).items():
            assert old in text
            text = text.replace(old, new)
        self.config.write_text(text)
        self.ready, self.log = folder / "ready.sh", folder / "haproxy.log"
        self.loaded = folder / "loaded"
        moved = {SOCKETS: self.sockets, PROXY_RUN: self.run, PROXY_LOADED: self.loaded, PROXY_CONFIG: self.config}
        # The longer one begins with the shorter one.
        for path in sorted(moved, key=len, reverse=True):
            files["ready.sh"] = files["ready.sh"].replace(path, str(moved[path]))
        self.ready.write_text(files["ready.sh"])
        self.url = f"http://127.0.0.1:{self.port}"
        # As the ready.sh of a LiteLLM that comes first.
        self.sockets.mkdir()
        self.doubles = {unit[-1]: self.double(unit[-1]) for unit in LITELLM}
        self.process = self.start()
        until(lambda: all(self.state(name) == "UP" for name in self.doubles), 10)

    def start(self) -> subprocess.Popen[bytes]:
        """As its unit does: what comes before the container, which gives folders away, and the container."""
        if IS_ROOT:
            subprocess.run(["sh", str(self.ready), "spec"], check=True, timeout=30)
        else:
            self.run.mkdir(exist_ok=True)
            self.sockets.mkdir(exist_ok=True)
        with self.log.open("ab") as log:
            argv = [*behind(self.folder, self.run, self.sockets), "haproxy", "-W", "-db", "-f", str(self.config)]
            return subprocess.Popen(argv, stdout=log, stderr=log)

    def double(self, name: str) -> subprocess.Popen[bytes]:
        """Start one; a, b."""
        sockets = [str(self.sockets / f"litellm-{name}.{kind}") for kind in ("sock", "pulse")]
        return subprocess.Popen([sys.executable, str(DOUBLE), name, *sockets], stderr=subprocess.DEVNULL)

    def pulse(self, name: str) -> str:
        return f"unix:{self.sockets}/litellm-{name}.pulse"

    def state(self, name: str) -> str:
        """As HAProxy sees it: UP, DOWN, DRAIN ..."""
        with socket.socket(socket.AF_UNIX) as channel:
            try:
                channel.connect(self.admin)
            except OSError:
                return ""
            channel.sendall(b"show stat\n")
            said = b"".join(iter(lambda: channel.recv(65536), b"")).decode()
        rows = [line.split(",") for line in said.splitlines()]
        return next((row[rows[0].index("status")] for row in rows if row[1:2] == [f"litellm-{name}"]), "")

    def stream(self, pieces: int, body: str = "") -> str:
        """All that came of it; raises where it breaks off."""
        data = json.dumps({"pieces": pieces, "more": body}).encode()
        with urllib.request.urlopen(urllib.request.Request(f"{self.url}/v1/chat", data, KEY), timeout=20) as answer:
            return str(answer.read().decode())

    def end(self) -> None:
        for process in (self.process, *self.doubles.values()):
            process.send_signal(signal.SIGCONT)
            process.kill()
            process.wait()


@pytest.fixture
def proxy(tmp_path: Path) -> Iterator[Proxy]:
    with placed(Proxy, tmp_path) as made:
        yield made


class Streams:
    """So many at once, each in a thread of its own."""

    def __init__(self, proxy: Proxy, count: int, pieces: int) -> None:
        self.whole: list[str] = []
        self.broken: list[float] = []
        self.threads = [threading.Thread(target=self._one, args=(proxy, pieces)) for _ in range(count)]
        for thread in self.threads:
            thread.start()

    def _one(self, proxy: Proxy, pieces: int) -> None:
        try:
            self.whole.append(proxy.stream(pieces))
        except (OSError, http.client.HTTPException):
            self.broken.append(time.monotonic())

    def wait(self) -> None:
        for thread in self.threads:
            thread.join()


def test_both_get_requests_and_the_liveness_says_that_one_of_them_is_up(proxy: Proxy) -> None:
    streams = Streams(proxy, 8, 5)
    streams.wait()
    assert sorted(said[0] for said in streams.whole) == [*"aaaabbbb"] and streams.broken == []
    assert urllib.request.urlopen(f"{proxy.url}/health/liveliness").status == 200
    for double in proxy.doubles.values():
        double.kill()
    until(lambda: proxy.state("a").startswith("DOWN") and proxy.state("b").startswith("DOWN"), 6)
    with pytest.raises(urllib.error.HTTPError) as refused:
        proxy.stream(1)
    assert refused.value.code == 503 and refused.value.headers["Retry-After"] == "10"
    assert json.load(refused.value)["error"]["code"] == "service_unavailable"
    with pytest.raises(urllib.error.HTTPError, match="503"):
        urllib.request.urlopen(f"{proxy.url}/health/liveliness")


def test_one_that_is_stopped_is_out_of_the_way_in_three_seconds(proxy: Proxy) -> None:
    streams = Streams(proxy, 8, 60)
    until(lambda: drained.under_way(proxy.pulse("a")) == drained.under_way(proxy.pulse("b")) == 4, 5)
    proxy.doubles["a"].send_signal(signal.SIGSTOP)
    stopped = time.monotonic()
    until(lambda: len(streams.broken) == 4, 6)
    # The machine that tests has little time for anybody.
    assert max(streams.broken) - stopped < 4.5
    assert proxy.stream(2) == "b0 b1 "
    streams.wait()
    assert len(streams.whole) == 4 and len(streams.broken) == 4


def test_one_that_dies_takes_its_own_streams_with_it_and_no_other(proxy: Proxy) -> None:
    streams = Streams(proxy, 8, 20)
    until(lambda: drained.under_way(proxy.pulse("a")) == 4, 5)
    proxy.doubles["a"].kill()
    later = Streams(proxy, 4, 3)
    for each in (streams, later):
        each.wait()
    assert (len(streams.whole), len(streams.broken)) == (4, 4)
    assert later.whole == ["b0 b1 b2 "] * 4


def test_one_is_renewed_and_no_stream_breaks(proxy: Proxy) -> None:
    streams = Streams(proxy, 8, 15)
    until(lambda: drained.under_way(proxy.pulse("a")) == 4, 5)
    said = drained.main(proxy.admin, "litellm/litellm-a", proxy.pulse("a"), [proxy.pulse("b")], 5, 20)
    assert said == {"left": 0}
    proxy.doubles["a"].kill()
    proxy.doubles["a"] = proxy.double("a")
    streams.wait()
    assert len(streams.whole) == 8 and streams.broken == []
    assert proxy.stream(1) == "b0 "
    assert drained.kept_out(proxy.admin) == ["litellm/litellm-a"]
    load("litellm/undrain.py").main(proxy.admin, "litellm/litellm-a")
    until(lambda: proxy.state("a") == "UP", 5)
    assert drained.kept_out(proxy.admin) == drained.kept_out("/none") == []
    assert {proxy.stream(1), proxy.stream(1)} == {"a0 ", "b0 "}


def test_the_other_one_is_not_drained_before_haproxy_sends_anything_to_the_first(proxy: Proxy) -> None:
    proxy.doubles["a"].kill()
    until(lambda: proxy.state("a").startswith("DOWN"), 6)
    proxy.doubles["a"] = proxy.double("a")
    # It takes requests, and HAProxy has not asked it twice yet.
    until(lambda: drained.under_way(proxy.pulse("a")) is not None, 5)
    assert drained.main(proxy.admin, "litellm/litellm-b", proxy.pulse("b"), [proxy.pulse("a")], 10, 5) == {"left": 0}
    assert proxy.stream(1) == "a0 "


def test_one_that_alone_serves_is_not_drained(proxy: Proxy) -> None:
    proxy.doubles["a"].kill()
    until(lambda: proxy.state("a").startswith("DOWN"), 6)
    asked = (proxy.admin, "litellm/litellm-b", proxy.pulse("b"), [proxy.pulse("a")], 1, 5)
    assert drained.main(*asked) == {"left": 0, "alone": 1}
    assert proxy.stream(1) == "b0 " and drained.kept_out(proxy.admin) == []
    # Where it serves nobody either nothing is waited for.
    proxy.doubles["b"].kill()
    until(lambda: drained.main(*asked) == {"left": 0}, 6)


def test_with_both_dead_nobody_is_waited_for(proxy: Proxy, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(drained, "SILENT_S", 1.0)
    for double in proxy.doubles.values():
        double.kill()
    until(lambda: proxy.state("b").startswith("DOWN"), 6)
    begun = time.monotonic()
    assert drained.main(proxy.admin, "litellm/litellm-a", proxy.pulse("a"), [proxy.pulse("b")], 60, 5) == {"left": 0}
    assert 1 <= time.monotonic() - begun < 30


def test_a_drain_ends_with_what_is_left_and_needs_no_proxy(proxy: Proxy, tmp_path: Path) -> None:
    streams = Streams(proxy, 2, 30)
    until(lambda: drained.under_way(proxy.pulse("a")) == 1, 5)
    assert drained.main(proxy.admin, "litellm/litellm-a", proxy.pulse("a"), [], 1, 0.5) == {"left": 1}
    assert drained.main(str(tmp_path / "none"), "litellm/litellm-a", proxy.pulse("a"), [], 1, 0.5) == {"left": 0}
    streams.wait()


def test_a_new_configuration_is_taken_up_under_streams(proxy: Proxy) -> None:
    streams = Streams(proxy, 4, 20)
    until(lambda: drained.under_way(proxy.pulse("a")) == 2, 5)
    proxy.config.write_text(proxy.config.read_text().replace("gt 1048576", "gt 100"))
    proxy.process.send_signal(signal.SIGUSR2)

    def is_new() -> bool:
        try:
            proxy.stream(1, "x" * 200)
        except urllib.error.HTTPError as refused:
            return refused.code == 413
        return False

    until(is_new, 10)
    streams.wait()
    assert len(streams.whole) == 4 and streams.broken == []


@pytest.mark.skipif(not IS_ROOT, reason="only root makes a user of another")
def test_it_has_no_right_and_its_socket_is_its_own_and_root_s(proxy: Proxy) -> None:
    """Who speaks to the socket could send requests away, or read what is under way."""
    said = dict(re.findall(r"^(\w+):\s+(.*)$", Path(f"/proc/{proxy.process.pid}/status").read_text(), re.MULTILINE))
    assert said["Uid"].split() == [str(PROXY_USER)] * 4 and said["NoNewPrivs"] == "1"
    assert {int(said[name], 16) for name in ("CapEff", "CapPrm", "CapInh", "CapBnd", "CapAmb")} == {0}
    for path, mode in ((proxy.run, 0o700), (Path(proxy.admin), 0o600)):
        found = path.stat()
        assert (found.st_uid, found.st_gid, found.st_mode & 0o777) == (PROXY_USER, PROXY_USER, mode)
    # Root writes it, and would follow a link that HAProxy had put in its place.
    assert proxy.run not in proxy.loaded.parents
    assert proxy.loaded.read_text().split()[0] == hashlib.sha256(proxy.config.read_bytes()).hexdigest()


@pytest.mark.skipif(not IS_ROOT, reason="only root leaves what another may not replace")
@pytest.mark.parametrize("before", ["a proxy that ran as root", "a boot"])
def test_it_starts_again_behind(proxy: Proxy, before: str) -> None:
    proxy.process.kill()
    proxy.process.wait()
    until(lambda: not is_listened_to(proxy.port), 10)
    shutil.rmtree(proxy.run)
    if before != "a boot":
        proxy.run.mkdir()
        with socket.socket(socket.AF_UNIX) as left:
            left.bind(proxy.admin)
    proxy.process = proxy.start()
    until(lambda: proxy.state("a") == "UP", 10)


def is_listened_to(port: int) -> bool:
    with socket.socket() as channel:
        return channel.connect_ex(("127.0.0.1", port)) == 0


def test_a_host_that_holds_too_many_connections_gets_no_more_and_others_are_answered(tmp_path: Path) -> None:
    # Of loopback's addresses each is a host here.
    few = {"gt 64": "gt 20", "!{ src 127.0.0.0/8 }": "!{ src 127.0.0.9 }", "ipmask(8)": "ipmask(32)", QUICK: SLOW}
    with placed(lambda folder: Proxy(folder, few), tmp_path) as proxy:
        _holds_too_many(proxy)


def test_its_own_node_is_answered_when_clients_have_all_connections(tmp_path: Path) -> None:
    with placed(lambda folder: Proxy(folder, {"maxconn 2000": "maxconn 20", QUICK: SLOW}), tmp_path) as proxy:
        held = [socket.create_connection(("127.0.0.1", proxy.port), 5) for _ in range(25)]
        with pytest.raises(OSError):
            urllib.request.urlopen(f"{proxy.url}/health/liveliness", timeout=1)
        assert opened(proxy.asked, 5).status == 200
        for each in held:
            each.close()


def _holds_too_many(proxy: Proxy) -> None:
    held = list[socket.socket]()

    def is_refused() -> bool:
        # Two of HAProxy's threads that count at once may each end a connection too many: as many as it takes are held.
        with suppress(ConnectionResetError):
            held.append(socket.create_connection(("127.0.0.1", proxy.port), 5))
        if len(held) < 20:
            return False
        try:
            urllib.request.urlopen(f"{proxy.url}/health/liveliness", timeout=5)
        except (OSError, http.client.HTTPException):
            return True
        return False

    until(is_refused, 10)
    other = http.client.HTTPConnection("127.0.0.1", proxy.port, 5, ("127.0.0.2", 0))
    other.request("GET", "/health/liveliness")
    assert other.getresponse().status == 200
    assert opened(proxy.asked, 5).status == 200
    for each in held:
        each.close()

    def is_let_in() -> bool:
        try:
            return bool(urllib.request.urlopen(f"{proxy.url}/health/liveliness", timeout=5).status == 200)
        except OSError:
            return False

    until(is_let_in, 5)


def test_nobody_says_for_others_who_asks(proxy: Proxy) -> None:
    others = {"X-Forwarded-For": "6.6.6.6", "Forwarded": "x"}
    asked = urllib.request.Request(f"{proxy.url}/v1/models", headers=KEY | others)
    said = json.load(urllib.request.urlopen(asked))
    assert said["x-forwarded-for"] == "127.0.0.1" and "forwarded" not in said


def test_one_request_too_many_of_all_is_told_to_come_back_and_the_others_end_well(proxy: Proxy) -> None:
    streams = Streams(proxy, 12, 30)
    until(lambda: sum(drained.under_way(proxy.pulse(name)) or 0 for name in "ab") == 12, 5)
    with pytest.raises(urllib.error.HTTPError) as refused:
        proxy.stream(1)
    assert refused.value.code == 429 and 2 <= int(refused.value.headers["Retry-After"]) <= 12
    assert json.load(refused.value)["error"]["code"] == "rate_limit_exceeded"
    streams.wait()
    assert len(streams.whole) == 12 and proxy.stream(1)


def test_what_is_too_large_or_too_slow_is_told_in_openai_s_form(proxy: Proxy) -> None:
    caller = http.client.HTTPConnection("127.0.0.1", proxy.port, timeout=20)
    # It is told as soon as the length is known, so the rest of the body may meet a door that is shut.
    with suppress(BrokenPipeError, ConnectionResetError):
        caller.request("POST", "/v1/chat", "x" * (2 << 20), KEY)
    refused = http.client.HTTPResponse(caller.sock, method="POST")
    refused.begin()
    assert refused.status == 413 and json.load(refused)["error"]["code"] == "request_too_large"
    for begin in (
        b"POST /v1/chat HTTP/1.1\r\nHost: x\r\n",
        b"POST /v1/chat HTTP/1.1\r\nHost: x\r\nApi-Key: y\r\nContent-Length: 9\r\n\r\n{",
    ):
        with socket.create_connection(("127.0.0.1", proxy.port), 10) as slow:
            slow.sendall(begin)
            answer = slow.recv(65536)
        assert answer.startswith((b"HTTP/1.0 408", b"HTTP/1.1 408"))
        # Of headers that do not end HAProxy says it in its own words: what it answers before there is a request.
        assert b'"code":"request_timeout"' in answer or b"Content-Length" not in begin


@pytest.mark.parametrize(
    "smuggled",
    [
        b"POST /v1/chat HTTP/1.1\r\nHost: x\r\nContent-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\nGET /",
        b"POST /v1/chat HTTP/1.1\r\nHost: x\r\nContent-Length: 5\r\nContent-Length: 6\r\n\r\nabcdef",
        b"POST /v1/chat HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: xchunked\r\n\r\n0\r\n\r\n",
        b"GET /v1/models HTTP/1.1\r\nHost: x\r\nHost: y\r\n\r\n",
    ],
)
def test_requests_of_two_meanings_end_at_the_proxy(proxy: Proxy, smuggled: bytes) -> None:
    with socket.create_connection(("127.0.0.1", proxy.port), 10) as stranger:
        stranger.sendall(smuggled)
        answer = stranger.recv(65536)
    assert b" 400 " in answer.split(b"\r\n")[0] or answer.count(b"HTTP/1.1 ") == 1
