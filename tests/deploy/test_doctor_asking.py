"""A node that hangs while the doctor asks it; doubles of hosts, the real clockwork."""

from __future__ import annotations

from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import gevent
import pytest

from operations.doctor import asking
from operations.node.doctor import look
from operations.plan.doctor.symptom import Seen


def test_a_node_that_hangs_is_given_up_and_the_other_is_heard(monkeypatch: pytest.MonkeyPatch) -> None:
    def ask_double(host: Any, program: Callable[..., Any], *_: Any, **__: Any) -> dict[str, Any]:
        if host.name == "spark-1" and program is look.main:
            gevent.sleep(60)
        return {"now": 0.0, "links": {}}

    monkeypatch.setattr(asking, "ask", ask_double)
    monkeypatch.setattr(asking, "LOOK_S", 0.2)
    hosts: Any = [SimpleNamespace(name=f"spark-{n}", connector=None, data={}) for n in (1, 2)]
    seen = Seen()
    examination = asking.Examination(hosts, seen)
    with gevent.Timeout(5):
        examination.look("/store", "image", {"spark-1": [], "spark-2": []}, ())
    assert list(examination.hosts) == list(seen.looks) == ["spark-2"]
    assert seen.dead["spark-1"].code == "reach-silent" and seen.dead["spark-1"].remedy


def test_a_node_that_fails_at_a_question_says_with_what(monkeypatch: pytest.MonkeyPatch) -> None:
    def ask_double(host: Any, *_: Any, **__: Any) -> Any:
        raise OSError("no such program")

    monkeypatch.setattr(asking, "ask", ask_double)
    host: Any = SimpleNamespace(name="spark-1", connector=None, data={})
    examination = asking.Examination([host], Seen())
    examination.cables()
    dead = examination.seen.dead["spark-1"]
    assert (dead.code, dead.why) == ("reach-question-failed", "lets us in and fails at a question: no such program")
