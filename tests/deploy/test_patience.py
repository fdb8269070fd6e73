"""What an owner reads while bytes arrive."""

from __future__ import annotations

import json
from typing import Any

import gevent
import pytest
from pyinfra import host
from pyinfra.context import ctx_host

from operations.node.copy.meter import Meter
from operations.runner import patience
from operations.runner.patience import progress
from operations.wire.model import Copied


def test_a_line_of_progress_says_how_far_how_fast_how_long_and_what_it_waits_for() -> None:
    line: Copied = {"bytes": 12_000_000_000, "of": 75_000_000_000, "rate": 2e9, "still": 0.0, "limit": "disk"}
    assert progress(line) == "12.0 of 75.0 GB, 2.00 GB/s, 32 s left, waits for the disk"
    assert progress(line | {"of": 0, "limit": ""}) == "12.0 GB, 2.00 GB/s"


def test_a_wait_in_a_step_s_own_body_speaks_too(monkeypatch: pytest.MonkeyPatch) -> None:
    """`pyinfra.host` means a node in the greenlet of the step, and none in the one that speaks."""
    monkeypatch.setattr(patience, "EVERY_S", 0.01)
    node: Any = Said()
    with ctx_host.use(node), patience.beat(host, "asking a model"):
        gevent.sleep(0.1)
    assert "asking a model: 0 s so far" in node.lines


class Said:
    """Stands in for a host: what is logged."""

    def __init__(self) -> None:
        self.lines: list[str] = []

    def log(self, line: str) -> None:
        self.lines.append(line)


def test_what_stands_still_says_for_how_long_and_not_what_it_once_was() -> None:
    line: Copied = {"bytes": 12_000_000_000, "of": 75_000_000_000, "rate": 0.0, "still": 41.0, "limit": "Hub"}
    assert progress(line) == "12.0 of 75.0 GB, nothing for 41 s"


def test_the_rate_is_that_of_the_last_seconds(monkeypatch: pytest.MonkeyPatch) -> None:
    """A minute at 1 GB/s, then a trickle: the mean would say 0.86 GB/s for ten minutes more."""
    clock = Clock()
    monkeypatch.setattr("operations.node.copy.meter.time", clock)
    meter = Meter(100 * 10**9, leg="Hub")
    for second in range(1, 71):
        clock.now = second
        meter.reach(min(second, 60) * 10**9 + max(0, second - 60) * 1000)
    assert meter.state()["rate"] == pytest.approx(1000, rel=0.01) and meter.state()["still"] == 0
    clock.now = 100
    meter.reach(60 * 10**9 + 10_000)
    assert meter.state()["still"] == 30


class Clock:
    """Stands in for the module `time`."""

    now = 0.0

    def monotonic(self) -> float:
        return self.now


def test_the_leg_that_took_most_of_the_time_is_the_limit(capsys: pytest.CaptureFixture[str]) -> None:
    meter = Meter(100)
    for leg, rounds in (("link", 1), ("disk", 50_000)):
        with meter.waiting(leg):
            sum(range(rounds))
    meter._said -= 2
    meter.count(40)
    told = json.loads(capsys.readouterr().out)
    assert told["bytes"] == 40 and told["of"] == 100 and told["limit"] == "disk"
