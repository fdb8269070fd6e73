"""What tests of several files ask of a deploy."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

from tests.lab.cluster import deploy


def wait_for(what: Callable[[], bool], within_s: float = 60) -> None:
    """Until it is so."""
    end = time.monotonic() + within_s
    while not what():
        assert time.monotonic() < end, f"not after {within_s} s"
        time.sleep(0.5)


def assert_settled(**knobs: Any) -> None:
    """A second run changes nothing."""
    again = deploy(**knobs)
    assert again.code == 0, again.text
    assert again.changes == 0, again.text
