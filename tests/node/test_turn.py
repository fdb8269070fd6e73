"""Whose turn it is to load: the program as a start runs it, with a double of systemctl, and engines of a test's."""

from __future__ import annotations

import fcntl
import json
import os
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.node.shipped import FILES
from tests.support.ports import free_port
from tests.support.serving import Quiet, saying, serving
from tests.support.waiting import comes

#: `turn.py` with a place of a test's, and less patience.
RUN = """
import sys
from pathlib import Path
sys.path.insert(0, sys.argv[1])
import turn
turn.PLACE, turn.KEPT_S, turn.memory.ANSWER_S = Path(sys.argv[2]), float(sys.argv[3]), 0.5
print(turn.main(*sys.argv[4:]), end="")
"""
#: The same beside a rank's container.
BESIDE = (
    RUN.rpartition("print(")[0]
    + "turn.LOOK_S = 0.1\nturn.beside(*sys.argv[4:6], *map(Path, sys.argv[6:8]), *map(int, sys.argv[8:]))\n"
)
A, B = "tandem-engine-a", "tandem-engine-b"
LOADS = "tandem-engine-a loads its model, and each would take the other's memory for its own"


class Node:
    """One with two engines, whose units are in the states that a test has written."""

    def __init__(self, home: Path) -> None:
        self.home, self.place = home, home / "run/turn.json"
        (home / "bin").mkdir()
        double = home / "bin/systemctl"
        # systemctl show UNIT.service --property=...
        double.write_text(f'#!/bin/sh\n[ "$1" = show ] && cat "{home}/${{2%.service}}"\n')
        double.chmod(0o755)
        for unit in (A, B):
            self.state(unit, "inactive", "dead")

    def state(self, unit: str, active: str, sub: str) -> None:
        """What systemd says of a unit from now on."""
        (self.home / unit).write_text(f"ActiveState={active}\nSubState={sub}\n")

    def begin(self, *words: str, kept_s: float = 60.0, program: str = RUN) -> subprocess.Popen[str]:
        """What a start runs: the unit, its URL, and its mark where it has one."""
        argv = [sys.executable, "-B", "-c", program, str(FILES / "engine"), str(self.place), str(kept_s), *words]
        path = f"{self.home}/bin:{os.environ['PATH']}"
        return subprocess.Popen(argv, env={**os.environ, "PATH": path}, stdout=subprocess.PIPE, text=True)

    @contextmanager
    def beside(self, unit: str, url: str, mib: int = 1) -> Iterator[tuple[Path, Path]]:
        """What runs beside a rank's container; where the rank asks, and where it is told."""
        mark, given = self.home / f"{unit}.json", self.home / unit[-1] / "turn"
        process = self.begin(unit, url, str(mark), str(given), str(mib), "0", program=BESIDE)
        try:
            yield mark, given
        finally:
            process.kill()
            process.communicate()

    def asks(self, unit: str, url: str = "http://127.0.0.1:9", mark: str = "", kept_s: float = 60.0) -> str:
        """Why it has to wait; empty: it is its turn."""
        process = self.begin(unit, url, *([mark] if mark else []), kept_s=kept_s)
        said, _ = process.communicate(timeout=60)
        assert process.returncode == 0
        return said


@pytest.fixture
def node(tmp_path: Path) -> Node:
    return Node(tmp_path)


@contextmanager
def engine(status: int = 200, said: bytes = b"") -> Iterator[str]:
    """One that answers."""

    class Handler(Quiet):
        def do_GET(self) -> None:
            self.reply(said, status)

    with serving(Handler) as url:
        yield f"{url}/metrics"


def nobody() -> str:
    """An address at which nothing listens."""
    return f"http://127.0.0.1:{free_port()}/metrics"


def test_the_first_one_goes_on_and_the_other_waits_until_it_has_loaded(node: Node) -> None:
    url = nobody()
    assert node.asks(A, url) == ""
    assert json.loads(node.place.read_text())["unit"] == A
    node.state(A, "activating", "start-pre")
    assert node.asks(B) == LOADS
    node.state(A, "active", "running")
    assert node.asks(B) == LOADS
    # Who waits has not taken the turn.
    assert json.loads(node.place.read_text())["unit"] == A
    with engine() as loaded:
        node.place.write_text(json.dumps(json.loads(node.place.read_text()) | {"url": loaded}))
        assert node.asks(B) == ""
    assert json.loads(node.place.read_text())["unit"] == B


@pytest.mark.parametrize(
    ("active", "sub"), [("failed", "failed"), ("inactive", "dead"), ("activating", "auto-restart")]
)
def test_one_that_has_ended_keeps_nobody_waiting(node: Node, active: str, sub: str) -> None:
    node.asks(A, nobody())
    node.state(A, active, sub)
    assert node.asks(B) == ""


def test_its_own_turn_is_never_waited_for(node: Node) -> None:
    url = nobody()
    node.asks(A, url)
    node.state(A, "activating", "start-pre")
    assert node.asks(A, url) == ""


def test_a_turn_is_not_kept_for_one_that_waits_for_something_else(node: Node) -> None:
    node.asks(A, nobody())
    node.state(A, "activating", "start-pre")
    assert node.asks(B, kept_s=3600) == LOADS
    assert node.asks(B, kept_s=0.0) == ""


def test_what_answers_late_or_with_an_error_has_loaded(node: Node) -> None:
    node.state(A, "active", "running")
    with engine(status=503) as unwell:
        node.asks(A, unwell)
        assert node.asks(B) == ""
    with socket.create_server(("127.0.0.1", 0)) as busy:
        node.state(B, "inactive", "dead")
        node.asks(A, f"http://127.0.0.1:{busy.getsockname()[1]}/metrics")
        assert node.asks(B) == ""


def test_what_says_that_it_loads_has_not_loaded(node: Node) -> None:
    """llama-server listens before it loads."""
    node.state(A, "active", "running")
    loads = b'{"error":{"message":"Loading model","type":"unavailable_error","code":503}}'
    with engine(503, loads) as url:
        node.asks(A, url)
        assert node.asks(B) == LOADS


def test_an_engine_that_speaks_no_http_keeps_nobody_for_ever(node: Node) -> None:
    """Some other program may have taken its port."""
    node.state(A, "active", "running")
    with saying(b"220 mail\r\n") as url:
        node.asks(A, f"{url}/metrics")
        assert node.asks(B) == ""


@pytest.mark.parametrize(
    ("meeting", "waits"),
    [
        *(('{"met": true}', True), ('{"met": false}', False), ('{"met": false, "asks": "7"}', True)),
        *(("{", False), (None, False)),
    ],
    ids=["met", "not met", "all are there", "cut off", "none yet"],
)
def test_a_rank_that_has_met_nobody_loads_nothing(node: Node, meeting: str | None, waits: bool) -> None:
    mark = node.home / "meeting.json"
    if meeting is not None:
        mark.write_text(meeting)
    node.asks(A, nobody(), str(mark))
    node.state(A, "active", "running")
    assert bool(node.asks(B)) == waits


def comes_to_have(path: Path, text: str, within_s: float = 20) -> bool:
    return comes(lambda: path.exists() and path.read_text() == text, within_s)


def test_a_rank_has_its_turn_when_all_are_there_and_nobody_else_loads(node: Node) -> None:
    url = nobody()
    assert node.asks(A, url) == ""
    node.state(A, "active", "running")
    node.state(B, "active", "running")
    with node.beside(B, nobody()) as (mark, given):
        mark.write_text('{"met": false, "missing": [1]}')
        assert not comes_to_have(given, "7", 1)
        # Nobody waits for a rank that has met nobody; it waits for whoever loads.
        mark.write_text('{"met": false, "missing": [], "asks": "7"}')
        assert not comes_to_have(given, "7", 1)
        node.state(A, "failed", "failed")
        assert comes_to_have(given, "7")
        node.state(A, "activating", "start-pre")
        assert node.asks(A, url) == LOADS.replace(A, B)
        # It has lost another rank before it began: its turn is over, and it has to ask anew.
        mark.write_text('{"met": false, "missing": [0]}')
        assert node.asks(A, url) == ""
        node.state(A, "active", "running")
        mark.write_text('{"met": false, "missing": [], "asks": "8"}')
        assert not comes_to_have(given, "8", 1)


def test_what_gives_a_rank_its_turn_ends_when_it_loads(node: Node) -> None:
    mark, given = node.home / "mark.json", node.home / "given"
    mark.write_text('{"met": true, "missing": []}')
    process = node.begin(B, nobody(), str(mark), str(given), "1", "0", program=BESIDE)
    process.communicate(timeout=20)
    assert process.returncode == 0 and given.read_text() == ""


def test_a_rank_has_no_turn_while_memory_is_short(node: Node) -> None:
    with node.beside(B, nobody(), mib=1 << 30) as (mark, given):
        assert comes_to_have(given, "")
        mark.write_text('{"met": false, "missing": [], "asks": "7"}')
        assert not comes_to_have(given, "7", 1)
        # It has not even asked for it.
        assert not node.place.exists()


@pytest.mark.parametrize("said", ["", "{", "[]", "null"])
def test_a_file_that_was_cut_off_is_nobody_s_turn(node: Node, said: str) -> None:
    node.place.parent.mkdir()
    node.place.write_text(said)
    assert node.asks(B) == ""


def test_who_asks_waits_until_another_one_s_question_is_answered(node: Node) -> None:
    node.place.parent.mkdir()
    with node.place.with_suffix(".lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        asks = node.begin(B, nobody())
        with pytest.raises(subprocess.TimeoutExpired):
            asks.communicate(timeout=5)
        # The other one has the turn now.
        node.place.write_text(json.dumps({"unit": A, "url": nobody(), "mark": "", "since": time.monotonic()}))
        node.state(A, "activating", "start-pre")
    assert asks.communicate(timeout=60)[0] == LOADS
