"""Waiting for what comes true a little later."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import TypeVar

Found = TypeVar("Found")


def until(
    found: Callable[[], Found], within_s: float, every_s: float = 0.05, logs: Callable[[], str] = lambda: "it did not"
) -> Found:
    """What is found at last. Raises AssertionError with the `logs` where that takes longer than `within_s`."""
    deadline = time.monotonic() + within_s
    while not (got := found()):
        assert time.monotonic() < deadline, logs()
        time.sleep(every_s)
    return got
