"""What `make bench-on-demand` takes for right: an answer to each client that waits, and a reason for each other one."""

from __future__ import annotations

import time
from dataclasses import replace

import pytest

from tests.bench import on_demand
from tests.bench.on_demand import Got


def got(status: int, ended: str) -> Got:
    return Got("a", status, 0.1, 0.1, 0.1, ended)


WELL, CUT = got(200, "well"), got(200, "cut off")
#: A stream that was told so, and a request that was.
FAILED, REFUSED = got(200, "a did not load"), got(503, "a loads: 1 s of about 40 s")


def test_who_waits_has_to_get_an_answer_and_who_does_not_a_reason() -> None:
    assert on_demand.wrong([WELL], [REFUSED, FAILED]) == []
    assert on_demand.wrong([WELL, FAILED, REFUSED, CUT], [CUT, REFUSED]) == [FAILED, REFUSED, CUT, CUT]


def test_a_client_that_is_told_to_come_back_does_and_its_wait_counts(monkeypatch: pytest.MonkeyPatch) -> None:
    answers, slept = [REFUSED, replace(REFUSED, again_s=7.0), WELL, CUT], list[float]()
    monkeypatch.setattr(on_demand, "ask", lambda _at, _model: answers.pop(0))
    monkeypatch.setattr(time, "sleep", slept.append)
    found = on_demand.ask_again({}, "a")
    assert (found.ended, found.told, answers) == ("well", 2, [CUT])
    # Where the answer does not say when, in a second.
    assert slept == [1.0, 7.0] and found.token_s < WELL.token_s + 1
