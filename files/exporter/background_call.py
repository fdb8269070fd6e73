"""Something that may hang, asked in a thread of its own: a question that does not end is left behind.

A thread can't be ended, and no more can a program that waits for its driver: so there is one question at a time, and no
second one beside it.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from typing import Generic, TypeVar

Answer = TypeVar("Answer")


class BackgroundCall(Generic[Answer]):
    """A question in a thread of its own, which may hang. Used by one thread at a time."""

    def __init__(self, ask: Callable[[], Answer]) -> None:
        self._ask = ask
        self._thread: threading.Thread | None = None
        self._given: list[Answer] = []
        self._error: Exception | None = None
        self._is_new = False
        self.began = 0.0

    @property
    def is_under_way(self) -> bool:
        return self._thread is not None and self._thread.is_alive()

    def begin(self) -> None:
        """A new question, where none is under way."""
        self._is_new = not self.is_under_way
        if self._is_new:
            self._given, self._error = [], None
            self.began = time.monotonic()
            self._thread = threading.Thread(target=self._wait, daemon=True)
            self._thread.start()

    def answer(self, until: float) -> Answer:
        """What has been said, or the error that was raised; TimeoutError: nothing yet. An older question that is still
        under way has been waited for before, and is not again.
        """
        if self._thread and self._is_new:
            self._thread.join(max(0.0, until - time.monotonic()))
        if self._thread is None or self._thread.is_alive():
            raise TimeoutError("there is no answer yet")
        if self._error is not None:
            raise self._error
        return self._given[0]

    def _wait(self) -> None:
        try:
            self._given = [self._ask()]
        except Exception as error:
            self._error = error
