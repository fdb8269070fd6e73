"""What strangers try at the door, while eight clients stream through it: HAProxy and two LiteLLM as a deploy has them.

The engine is a double, which counts what reaches it.
"""

from __future__ import annotations

import asyncio
import hashlib
import json
import re
import socket
import sys
import threading
import time
import urllib.request
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from tests.bench.door.__main__ import haproxy, program
from tests.bench.door.client import ask
from tests.bench.routing import doors
from tests.node.stranger_rows import ROWS
from tests.node.stranger_words import CLOSED, Row
from tests.support.ports import free_port

pytestmark = pytest.mark.skipif(not doors.LITELLM.exists(), reason="no LiteLLM here: `make venv-proxy`")

KEYS = {
    "client": "sk-client-marker",
    "expired": "sk-expired-marker",
    "revoked": "sk-revoked-marker",
    "owner": doors.KEY,
}
CLIENTS = 8
#: Seconds in which headers and the beginning of a body have to be there: 30 in the configuration.
SLOW_S = 6
#: Seconds after which a row without an answer hangs, and for which more is waited for behind an answer.
PATIENCE_S, KEPT_S, HANGS = 3 * SLOW_S, 3, -1
#: Of an answer; 100 is none yet.
STATUS = re.compile(rb"HTTP/1\.[01] (?!100)(\d{3})")


@dataclass
class Clients:
    """They stream without a pause, until the end."""

    url: str
    whole: int = 0
    lost: list[str] = field(default_factory=list)
    over: bool = False

    def run(self) -> None:
        asyncio.run(self._all())

    async def _all(self) -> None:
        await asyncio.gather(*(self._one() for _ in range(CLIENTS)))

    async def _one(self) -> None:
        while not self.over:
            try:
                assert (await ask(self.url, KEYS["client"], 20, 50)).chunks == 20
                self.whole += 1
            except (OSError, RuntimeError, AssertionError) as error:
                self.lost.append(repr(error))


@dataclass
class Door:
    """What runs."""

    url: str
    engine: str
    logs: list[Path]
    secrets: list[Path]
    admin: Path

    def keys(self, *names: str) -> None:
        """These are known from now on; one has expired."""
        plain = {"made": 1.0, "requests": None, "tokens": None}
        hashes = {name: hashlib.sha256(KEYS[name].encode()).hexdigest() for name in names}
        said = {
            name: {**plain, "hash": each, "expires": 2.0 if name == "expired" else None}
            for name, each in hashes.items()
        }
        for folder in self.secrets:
            folder.mkdir(exist_ok=True)
            (folder / "keys.part").write_text(json.dumps(said))
            (folder / "keys.part").rename(folder / "keys.json")

    def under_way(self) -> int:
        """Requests that HAProxy has sent to a LiteLLM and not seen the end of; of these it sends so many at once."""
        with socket.socket(socket.AF_UNIX) as channel:
            channel.connect(str(self.admin))
            channel.sendall(b"show stat\n")
            said = b"".join(iter(lambda: channel.recv(65536), b"")).decode()
        return int(next(line for line in said.splitlines() if line.startswith("litellm,BACKEND,")).split(",")[4])

    def begun(self) -> int:
        """Answers that the engine has begun."""
        return int(urllib.request.urlopen(self.engine).read())


@pytest.fixture(scope="module")
def door(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Door]:
    folder = tmp_path_factory.mktemp("door")
    with ExitStack() as stack, pytest.MonkeyPatch.context() as patch:
        patch.setenv("TANDEM_BODY_BYTES", str(64 << 20))
        patch.setenv("TANDEM_REQUEST_S", str(SLOW_S))
        patch.setenv("PYTHONUNBUFFERED", "1")
        engine = free_port()
        stack.enter_context(program([sys.executable, "-m", "tests.bench.door.engine", str(engine)], cwd=doors.ROOT))
        (folder / "shared").mkdir()

        def litellm(name: str) -> Path:
            urls = [f"http://127.0.0.1:{engine}"]
            made = doors.litellm("balanced", urls, "double", folder / name, shared=folder / "shared")
            stack.callback(made.stop)
            return folder / name / "balanced/used"

        with ThreadPoolExecutor() as pool:
            inner = list(pool.map(litellm, "ab"))
        port = free_port()
        changes = {f"timeout {name} 30s": f"timeout {name} {SLOW_S}s" for name in ("http-request", "client")}
        changes["wait-for-body time 30s"] = f"wait-for-body time {SLOW_S}s"
        haproxy(folder, port, inner, stack, changes)
        homes = [folder / name / "balanced" for name in "ab"]
        secrets, logs = [home / "secrets" for home in homes], [home / "log" for home in homes]
        yield Door(f"http://127.0.0.1:{port}", f"http://127.0.0.1:{engine}", logs, secrets, folder / "admin.sock")


def filled_in(text: bytes) -> bytes:
    """With the keys that rows name."""
    for name, key in KEYS.items():
        text = text.replace(b"{%b}" % name.encode(), key.encode())
    return text


def attempt(url: str, row: Row) -> list[int]:
    """Statuses of all that was answered; CLOSED where nothing was, HANGS where that took too long."""
    host, _, port = url.removeprefix("http://").partition(":")
    with socket.create_connection((host, int(port)), PATIENCE_S) as stranger:
        sender = threading.Thread(target=send, args=(stranger, row), daemon=True)
        sender.start()
        said = b""
        try:
            while part := stranger.recv(1 << 16):
                said += part
                # It may be kept open for another request.
                stranger.settimeout(KEPT_S if STATUS.search(said) else PATIENCE_S)
        except ConnectionResetError:
            pass
        except TimeoutError:
            if not STATUS.search(said):
                return [HANGS]
    return [int(each) for each in STATUS.findall(said)] or [CLOSED]


def is_right(row: Row, statuses: list[int]) -> bool:
    return statuses == list(row.exactly) if row.exactly else set(statuses) <= set(row.may)


def send(stranger: socket.socket, row: Row) -> None:
    """What is over, or not wanted any more, is not sent."""
    pieces = [row.sends] if isinstance(row.sends, bytes) else row.sends()
    try:
        for piece in pieces:  # type: ignore[attr-defined]
            if isinstance(piece, float):
                time.sleep(piece)
            else:
                stranger.sendall(filled_in(piece))
    except OSError:
        pass


def test_strangers_get_nothing_and_who_streams_beside_them_loses_nothing(door: Door) -> None:
    assert f" {len(ROWS)} requests beside\n" in (doors.ROOT / "docs/security.md").read_text()
    door.keys("client", "expired", "revoked")
    known = urllib.request.Request(f"{door.url}/v1/models", headers={"Authorization": f"Bearer {KEYS['revoked']}"})
    assert urllib.request.urlopen(known).status == 200
    door.keys("client", "expired")
    clients = Clients(door.url)
    streaming = threading.Thread(target=clients.run)
    streaming.start()
    idle = []
    try:
        idle += [socket.create_connection(("127.0.0.1", int(door.url.rpartition(":")[2])), 10) for _ in range(1000)]
        with ThreadPoolExecutor(6) as pool:
            seen = dict(zip(ROWS, pool.map(lambda row: attempt(door.url, row), ROWS), strict=True))
    finally:
        clients.over = True
        streaming.join()
        for each in idle:
            each.close()
    for row, statuses in seen.items():
        print(f"{row.group}: {row.name}: {statuses}")
    wrong = {f"{row.group}: {row.name}": each for row, each in seen.items() if not is_right(row, each)}
    assert wrong == {}
    assert clients.lost == [] and clients.whole > 2 * CLIENTS
    # Nothing but theirs has reached an engine.
    assert door.begun() == clients.whole
    log = "".join(path.read_text() for path in door.logs)
    assert "Traceback" not in log, log[-3000:]
    assert not [key for key in KEYS.values() if key in log]
    print(Counter(status for each in seen.values() for status in each), clients.whole)


def test_who_owes_a_body_behind_its_answer_takes_nobody_s_place(door: Door) -> None:
    door.keys("client")
    owing = [row for row in ROWS if row.name.startswith("768 KiB")]
    with ExitStack() as stack:
        for row in owing:
            stranger = stack.enter_context(
                socket.create_connection(("127.0.0.1", int(door.url.rpartition(":")[2])), 10)
            )
            threading.Thread(target=send, args=(stranger, row), daemon=True).start()
        until = time.monotonic() + PATIENCE_S
        most = 0
        while time.monotonic() < until and (not most or door.under_way()):
            most = max(most, door.under_way())
            time.sleep(0.2)
        # Their connections are open here all the time.
        assert most and door.under_way() == 0


def test_an_answer_that_is_silent_for_longer_than_a_slow_client_may_be_comes_whole(door: Door) -> None:
    door.keys("client")
    answer = asyncio.run(ask(door.url, KEYS["client"], 2, 1000 * (SLOW_S + 2)))
    assert answer.chunks == 2
