"""Downloads that stand still: ended, said, begun anew another way, and what was whole is not fetched again."""

from __future__ import annotations

import json
import re
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from operations.node.copy import hub, silence
from operations.node.copy.meter import Meter
from operations.node.copy.silence import Silence
from tests.node import test_hub
from tests.node.models import FOLDER, REVISION
from tests.node.test_hub import SCRIPT, FaultyHub, assert_whole, download

store = test_hub.store

#: A client that says what will come, brings a part of it, and never anything more.
STILL = """
import pathlib, sys, time
if "mute" not in sys.argv:
    print('{"model.safetensors": {"size": 1000000, "blob": "aa"}}', flush=True)
blobs = pathlib.Path(sys.argv[1]) / "blobs"
blobs.mkdir(parents=True, exist_ok=True)
(blobs / "aa.12345678.incomplete").write_bytes(bytes(300000))
if "ends" not in sys.argv:
    time.sleep(40)
"""


@pytest.fixture
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    """Two seconds of silence are enough."""
    monkeypatch.setattr(hub, "SILENCE_S", 2)
    monkeypatch.setattr(hub, "START_S", 4)
    monkeypatch.setattr(hub, "PAUSES_S", (0, 0))


@pytest.fixture
def ways(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[list[str]]]:
    """With which variables each try was begun."""
    begun: list[list[str]] = []

    def command(argv: list[str], settings: Any) -> list[str]:
        begun.append(list(settings))
        return ["env", *settings, sys.executable, "-c", SCRIPT, *argv]

    monkeypatch.setattr(hub, "command", command)
    yield begun


def told(captured: pytest.CaptureFixture[str]) -> list[str]:
    lines = [json.loads(line) for line in captured.readouterr().out.splitlines() if line.startswith("{")]
    return [line["said"] for line in lines if "said" in line]


def test_a_download_that_stands_still_is_begun_anew_without_xet_and_keeps_what_is_whole(
    store: Path,
    quick: None,
    ways: list[list[str]],
    capfd: pytest.CaptureFixture[str],
) -> None:
    """By the Hub's real client."""
    FaultyHub.fault, FaultyHub.times = ("file", "still"), 1
    done = download(store)
    assert done.get("done"), done
    assert_whole(store)
    assert ways == [[], ["HF_HUB_DISABLE_XET=1"]]
    (said,) = told(capfd)
    # Two seconds; a machine that does more looks later.
    assert re.match(r"nothing came for \d+ s, at 0\.1 of 0\.1 GB; begun anew without xet", said), said
    assert [FaultyHub.sent.count(f"model-{shard}.safetensors") for shard in range(3)] == [1, 2, 1]


def alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, *how: str) -> Any:
    """A download by a small client in the place of the Hub's, which can't be told to hang."""
    client = tmp_path / "client.py"
    client.write_text(STILL)
    repo = tmp_path / FOLDER
    monkeypatch.setattr(hub, "remove", lambda: None)
    monkeypatch.setattr(hub, "command", lambda argv, settings: [sys.executable, str(client), str(repo), *how])
    return hub.main([], str(tmp_path), FOLDER, REVISION, str(tmp_path))


@pytest.mark.parametrize(
    ("how", "error"),
    [
        # Two seconds; a machine that does more looks later.
        (("hangs",), r"nothing came for \d+ s, at 0\.0 of 0\.0 GB, 3 times in a row, also without xet;"),
        (("mute",), "at its start, 3 times in a row"),
        (("ends",), r"its client ended without model\.safetensors, 3 times in a row"),
    ],
)
def test_one_that_never_comes_is_left_to_the_owner_in_bounded_time(
    how: tuple[str, ...], error: str, tmp_path: Path, quick: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    start = time.monotonic()
    answer = alone(tmp_path, monkeypatch, *how)
    assert re.search(error, answer["error"]) and "the next run goes on from there" in answer["error"], answer
    assert time.monotonic() - start < 60


def test_what_comes_slowly_over_the_links_does_not_stand_still(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Over 10 Mb/s a client of many streams writes its first block behind a minute."""
    links, clock = tmp_path / "dev", Clock()
    monkeypatch.setattr(silence, "LINKS", links)
    monkeypatch.setattr(silence, "time", clock)

    def came(link: int, own: int = 0) -> None:
        links.write_text(f"h\nh\n    lo: {own} 0 0\nenP7s7:{link} 0 0\n")

    came(0)
    watch = Silence(30)
    for second in range(1, 301):
        clock.now = second
        came(second * 1_000_000, second * 10**9)
        assert not watch.look("the same", silence.received())
    for second in range(301, 329):
        clock.now = second
        came(300_000_000, second * 10**10)
        assert not watch.look("the same", silence.received())
    clock.now = 331
    assert watch.look("the same", silence.received()), "what it tells itself is no sign"
    assert not watch.look("another", silence.received()), "a file has changed"
    for second in range(332, 931):
        clock.now = second
        came(second * 10_000_000)
        assert not watch.look("another", silence.received())
    clock.now = 940
    assert watch.look("another", silence.received()), "ten minutes, whoever else's bytes come"


def test_a_file_that_has_its_size_from_the_start_is_seen_to_grow(tmp_path: Path) -> None:
    file = tmp_path / "blobs/aa.incomplete"
    file.parent.mkdir()
    file.write_bytes(bytes(10))
    before = hub._written(tmp_path)
    time.sleep(0.02)
    with file.open("r+b") as open_file:
        open_file.write(b"x")
    assert hub._written(tmp_path) != before


class Clock:
    """Stands in for the module `time`."""

    now = 0.0

    def monotonic(self) -> float:
        return self.now


def test_a_router_that_restarts_is_waited_for(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What fails at once behind a client that stood still: the pauses grow, and are three minutes together."""
    paused: list[float] = []
    tries = iter([hub.Try({}, Meter(leg="Hub"), "nothing came", again=True)])
    later = hub.Try({}, Meter(leg="Hub"), "Name or service not known")
    monkeypatch.setattr(hub, "_try", lambda *_: next(tries, later))
    monkeypatch.setattr(time, "sleep", paused.append)
    assert "5 times in a row" in alone(tmp_path, monkeypatch)["error"]
    assert paused == sorted(paused) and paused[0] <= 5 and sum(paused) >= 180 and silence.SILENCE_S >= 90
