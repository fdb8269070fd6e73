"""What tests of several files ask of a deploy."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from tests.lab.cluster import deploy
from tests.support.waiting import Found, until


def wait_for(found: Callable[[], Found], within_s: float = 60) -> Found:
    """What is found at last, looked for each second. Raises AssertionError."""
    return until(found, within_s, every_s=1.0, logs=lambda: f"not within {within_s} s")


def assert_settled(**knobs: Any) -> None:
    """A second run changes nothing."""
    again = deploy(**knobs)
    assert again.code == 0, again.text
    assert again.changes == 0, again.text
