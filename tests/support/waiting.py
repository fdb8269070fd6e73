"""Waiting for what comes true a little later."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import TypeVar

from tests.support.ports import listens

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


def comes(found: Callable[[], object], within_s: float = 30) -> bool:
    """Whether it comes true in time."""
    deadline = time.monotonic() + within_s
    while not (got := found()) and time.monotonic() < deadline:
        time.sleep(0.05)
    return bool(got)


def until_it_listens(port: int, within_s: float = 20) -> None:
    """Raises AssertionError where nobody takes a connection on this port of loopback's in time."""
    until(lambda: listens(port), within_s, logs=lambda: f"nobody listens on port {port}")
