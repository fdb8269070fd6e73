"""What is looked for in an engine's log: a pattern that takes too long is given up, and told."""

from __future__ import annotations

import time

import pytest

from operations.node.unit import journal


def test_a_pattern_that_takes_too_long_on_a_line_is_given_up_and_the_others_go_on(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(journal, "SECONDS", 0.2)
    slow: list[str] = []
    began = time.process_time()
    seen = journal.matches(["a" * 60 + "!", "it serves"], ["(a+)+b", "serves"], slow)
    assert seen == {"serves": "it serves"} and slow == ["(a+)+b"]
    assert time.process_time() - began < 2


def test_a_line_without_end_is_looked_at_as_far_as_lines_go() -> None:
    assert journal.matches(["x" * journal.LINE + "y"], ["x", "y"]).keys() == {"x"}
