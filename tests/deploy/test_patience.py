"""What an owner reads while bytes arrive."""

from __future__ import annotations

import json

import pytest

from operations.node.copy.meter import Meter
from operations.patience import progress
from operations.shapes.model import Copied


def test_a_line_of_progress_says_how_far_how_fast_how_long_and_what_it_waits_for() -> None:
    line: Copied = {"bytes": 12_000_000_000, "of": 75_000_000_000, "seconds": 6.0, "limit": "disk"}
    assert progress(line) == "12.0 of 75.0 GB, 2.00 GB/s, 32 s left, waits for the disk"
    assert progress({"bytes": 12_000_000_000, "of": 0, "seconds": 6.0, "limit": ""}) == "12.0 GB, 2.00 GB/s"


def test_the_leg_that_took_most_of_the_time_is_the_limit(capsys: pytest.CaptureFixture[str]) -> None:
    meter = Meter(100)
    for leg, rounds in (("link", 1), ("disk", 50_000)):
        with meter.waiting(leg):
            sum(range(rounds))
    meter._said -= 2
    meter.count(40)
    told = json.loads(capsys.readouterr().out)
    assert told["bytes"] == 40 and told["of"] == 100 and told["limit"] == "disk"
