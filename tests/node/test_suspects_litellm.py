"""Requests behind which engines die, through the real LiteLLM to doubles of an engine that do."""

from __future__ import annotations

import fcntl
import json
import os
import subprocess
import sys
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from operations.paths import PROXY_USER
from tests.bench.routing import doors
from tests.node.confined import IS_ROOT, contained, place
from tests.node.doubles.mortal_double import DIGITS
from tests.node.litellm_proxy import CHAT
from tests.node.shipped import part
from tests.node.strangers import request
from tests.plan.samples import ROOT
from tests.support.ports import free_port
from tests.support.waiting import until, until_it_listens

pytestmark = pytest.mark.skipif(not doors.LITELLM.exists(), reason="no LiteLLM here: `make venv-proxy` installs it")
ENGINES = 3
#: Where each protocol's error has its words.
FORMS = {CHAT: "invalid_request_error", "/v1/messages": "error", "/v1/responses": "invalid_request_error"}


class Engines:
    """Doubles that die, and the door before them."""

    def __init__(self, folder: Path, count: int = ENGINES) -> None:
        self.folder, self.ports = folder, [free_port() for _ in range(count)]
        #: What it would share with another LiteLLM: where it may write.
        self.shared = folder / "balanced" / "used"
        self.running: dict[int, subprocess.Popen[bytes]] = {}
        self.door = doors.litellm(
            "balanced",
            [f"http://127.0.0.1:{port}" for port in self.ports],
            "double",
            folder,
            before=contained,
            shared=self.shared,
        )

    def all_live(self) -> None:
        """Whoever has died is there again, and out of its cooldown."""
        for port in self.ports:
            if port not in self.running or self.running[port].poll() is not None:
                log = str(self.folder / f"{port}.log")
                argv = [sys.executable, "-m", "tests.node.doubles.mortal_double", str(port), log]
                self.running[port] = subprocess.Popen(argv, cwd=ROOT)
        for port in self.ports:
            until_it_listens(port)

    def deaths(self) -> int:
        return self.count("died")

    def count(self, what: str) -> int:
        logs = (log.read_text().splitlines() for log in self.folder.glob("*.log"))
        return sum(lines.count(what) for lines in logs)

    def ask(self, text: str, path: str = CHAT, stream: bool = False) -> tuple[int, dict[str, str], bytes]:
        """The same text is the same body."""
        messages = [{"role": "user", "content": text}]
        what: dict[str, Any] = {"input": text} if path == "/v1/responses" else {"messages": messages, "max_tokens": 90}
        return request(self.door.url, "POST", path, self.door.key, {"model": "double", "stream": stream, **what})

    def stop(self) -> None:
        self.door.stop()
        for each in self.running.values():
            each.kill()
            each.wait()


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Engines]:
    with place(tmp_path_factory.mktemp("suspects")) as folder, pytest.MonkeyPatch.context() as patch:
        patch.setenv("TANDEM_ALIVE_S", "0.5")
        engines = Engines(folder)
        yield engines
        engines.stop()


@pytest.fixture
def one(tmp_path: Path) -> Iterator[Engines]:
    """A single engine, as a cluster has."""
    with place(tmp_path) as folder:
        engines = Engines(folder, 1)
        try:
            engines.all_live()
            yield engines
        finally:
            engines.stop()


@pytest.fixture
def engines(made: Engines) -> Engines:
    made.all_live()
    return made


def text_of(answer: bytes) -> str:
    """Of a stream."""
    said = [json.loads(line[6:]) for line in answer.splitlines() if line.startswith(b"data: {")]
    return "".join(each["choices"][0]["delta"].get("content", "") for each in said if each.get("choices"))


def test_who_finds_no_engine_is_told_when_one_will_be_there(engines: Engines) -> None:
    """As long as the engine was gone when it was gone last; and what is beyond that is not for ever."""
    gone_s = 8
    for expected in (range(30, 31), range(1, gone_s + 3)):
        for each in engines.running.values():
            each.kill()
            each.wait()
        began = time.monotonic()
        status, headers, _ = engines.ask("well, and late")
        assert status == 503 and int(headers["retry-after"]) in expected
        time.sleep(max(gone_s - (time.monotonic() - began), 0))
        engines.all_live()
        # The door looks once a second.
        time.sleep(3)
        assert engines.ask("well, and late")[0] == 200


@pytest.mark.parametrize("path", FORMS)
@pytest.mark.parametrize("stream", [False, True])
def test_one_that_is_alone_kills_two_engines_and_is_remembered(engines: Engines, path: str, stream: bool) -> None:
    before, text = engines.deaths(), f"poison {path} {stream}"
    for _ in range(3):
        status, _, body = engines.ask(text, path, stream)
        said = json.loads(body)
        assert (status, engines.deaths() - before) == (422, 2)
        assert "an engine has died over this request" in said["error"]["message"]
        assert (said if path == "/v1/messages" else said["error"])["type"] == FORMS[path]
    status, _, body = engines.ask("well")
    assert status == 200 and json.loads(body)["choices"][0]["message"]["content"] == DIGITS


def test_an_engine_that_says_that_its_core_has_died(engines: Engines) -> None:
    before = engines.deaths()
    assert [engines.ask("core poison")[0] for _ in range(2)] == [422, 422]
    assert engines.deaths() - before == 2


def test_what_a_dying_server_still_breaks_is_no_second_death(one: Engines) -> None:
    """A cluster has one engine, and its server says for some seconds that its core has died."""
    with ThreadPoolExecutor(6) as pool:
        beside = [pool.submit(one.ask, f"well beside it {index}") for index in range(5)]
        time.sleep(0.5)
        assert one.ask("core poison that lingers")[0] == 503
        assert [each.result()[0] for each in beside] == [503] * 5
        assert one.count("asked poison") == 1
        one.running[one.ports[0]].wait()
        one.all_live()
        # The door looks once a second.
        time.sleep(3)
        assert one.ask("core poison that lingers")[0] == 422
        one.running[one.ports[0]].wait()
        one.all_live()
        time.sleep(3)
        assert [each[0] for each in pool.map(one.ask, (f"well beside it {index}" for index in range(5)))] == [200] * 5
    assert one.deaths() == 2


def test_one_that_kills_in_the_midst_of_its_answer_kills_two(engines: Engines) -> None:
    before = engines.deaths()
    status, _, body = engines.ask("slow poison", stream=True)
    assert status == 200 and text_of(body) == DIGITS[:4] and b"an engine has died over this request" in body
    assert engines.ask("slow poison", stream=True)[0] == 422
    assert engines.deaths() - before == 2


def test_those_beside_it_go_on_and_are_told_apart_from_it(engines: Engines) -> None:
    before, asked = engines.deaths(), engines.count("asked poison")
    # Another one in each try: what is remembered of it is remembered for the next.
    text = f"poison in company {time.monotonic()}"
    with ThreadPoolExecutor(16) as pool:
        streams = [pool.submit(engines.ask, f"well {index}", CHAT, True) for index in range(9)]
        whole = [pool.submit(engines.ask, f"well and whole {index}") for index in range(3)]
        time.sleep(0.6)
        poison = pool.submit(engines.ask, text, CHAT, True)
        status, _, body = poison.result()
        # One that came late in the queue has been told meanwhile that it lives: its answer has begun.
        assert status in (200, 422) and b"an engine has died over this request" in body
        answers = [each.result() for each in streams]
        assert [(status, text_of(body)) for status, _, body in answers] == [(200, DIGITS)] * 9
        assert [each.result()[0] for each in whole] == [200] * 3
        assert engines.deaths() - before == 2 and engines.count("asked poison") - asked == 2
        engines.all_live()
        # A client's own retry, and what it was beside, asked once more.
        again = [pool.submit(engines.ask, f"well {index}", CHAT, True) for index in range(9)]
        assert engines.ask(text, CHAT, True)[0] == 422
        assert [each.result()[0] for each in again] == [200] * 9
    assert engines.deaths() - before == 2


@pytest.mark.parametrize("stream", [False, True])
def test_an_engine_that_is_killed_over_a_request_makes_nobody_guilty(engines: Engines, stream: bool) -> None:
    """Something else ended it, before or after its first token: the other engine answers."""
    with ThreadPoolExecutor(1) as pool:
        answer = pool.submit(engines.ask, f"well, and alone {stream}", CHAT, stream)
        time.sleep(1)
        (port,) = busy(engines)
        engines.running[port].kill()
        engines.running[port].wait()
        status, _, body = answer.result()
        assert status == 200 and DIGITS in (text_of(body) if stream else body.decode())
    engines.all_live()
    assert engines.ask(f"well, and alone {stream}", CHAT, stream)[0] == 200


def test_copies_of_one_that_wait_for_their_turn_are_not_asked_when_it_is_known(
    engines: Engines, monkeypatch: pytest.MonkeyPatch
) -> None:
    """On engines that are left: each has been given one already when the first of them dies."""
    monkeypatch.setenv("TANDEM_SHARED", str(engines.shared))
    before = engines.deaths()
    turn = part("litellm", "suspects").turn_file(min(f"http://127.0.0.1:{port}/v1" for port in engines.ports))
    with ThreadPoolExecutor(4) as pool, turn.open("a") as held:
        if IS_ROOT:
            os.chown(turn, PROXY_USER, PROXY_USER)
        fcntl.flock(held, fcntl.LOCK_EX)
        copies = [pool.submit(engines.ask, "poison in copies")]
        until(lambda: engines.deaths() > before, 60)
        time.sleep(0.5)
        copies += [pool.submit(engines.ask, "poison in copies") for _ in range(3)]
        time.sleep(1.5)
        fcntl.flock(held, fcntl.LOCK_UN)
        assert [each.result()[0] for each in copies] == [422] * 4
    assert engines.deaths() - before == 2


@pytest.mark.parametrize("path", FORMS)
def test_a_stream_that_waits_for_its_turn_says_that_it_lives(
    engines: Engines, monkeypatch: pytest.MonkeyPatch, path: str
) -> None:
    monkeypatch.setenv("TANDEM_SHARED", str(engines.shared))
    before = engines.deaths()
    turn = part("litellm", "suspects").turn_file(min(f"http://127.0.0.1:{port}/v1" for port in engines.ports))
    with ThreadPoolExecutor(1) as pool, turn.open("a") as held:
        if IS_ROOT:
            os.chown(turn, PROXY_USER, PROXY_USER)
        fcntl.flock(held, fcntl.LOCK_EX)
        waits = pool.submit(engines.ask, f"poison that waits {path}", path, True)
        until(lambda: engines.deaths() > before, 60)
        time.sleep(2)
        fcntl.flock(held, fcntl.LOCK_UN)
        status, _, body = waits.result()
    # OpenAI's reader of responses ends at any event before its first, and skips comments.
    sign = b"event: ping\n" if path == "/v1/messages" else b": it lives\n"
    assert status == 200 and body.startswith(sign) and 2 <= body.count(sign) <= 5
    assert b"an engine has died over this request" in body and engines.deaths() - before == 2


def busy(engines: Engines) -> list[int]:
    """Ports of the engines that have a connection from the door, about which something is sent."""
    lines = subprocess.run(["ss", "-Htn", "state", "established"], capture_output=True, text=True, check=True).stdout
    places = [line.split()[2] for line in lines.splitlines()]
    return [port for port in engines.ports if f"127.0.0.1:{port}" in places]
