"""Reading the logs of all ranks of a cluster on and on: nothing that was seen is lost, a restart begins anew."""

from __future__ import annotations

from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import pytest

from operations import watching
from operations.plan import nccl
from operations.plan.recipe import Forbidden, Proof
from tests.plan.samples import plan

PROOF = Proof(expect=("joined", "serving"), forbid=(Forbidden(pattern="fallback", meaning="another kernel"),))


@pytest.fixture
def journals(monkeypatch: pytest.MonkeyPatch) -> dict[str, list[dict[str, Any]]]:
    """What each node's journal answers, one after the other; then nothing new."""
    answers: dict[str, list[dict[str, Any]]] = {"spark-1": [], "spark-2": []}

    def ask(host: Any, program: str, **arguments: Any) -> dict[str, Any]:
        assert program == "unit.journal"
        if answers[host.name]:
            return answers[host.name].pop(0)
        return {"seen": {}, "invocation": arguments["invocation"], "cursor": arguments["cursor"]}

    hosts = {name: SimpleNamespace(name=name) for name in answers}
    monkeypatch.setattr(watching, "ask", ask)
    monkeypatch.setattr(watching, "state", SimpleNamespace(inventory=SimpleNamespace(get_host=hosts.get)))
    return answers


def watch() -> watching.Watch:
    return watch_of(proof=PROOF)


def watch_of(**changes: Any) -> watching.Watch:
    """The logs of a cluster whose recipe has these changes."""
    (model,) = plan(topology="cluster").models
    host: Any = SimpleNamespace(name="spark-1")
    return watching.Watch(replace(model, recipe=model.recipe.model_copy(update=changes)), host)


def said(invocation: str, **seen: str) -> dict[str, Any]:
    return {"seen": seen, "invocation": invocation, "cursor": "c"}


def test_where_the_system_s_nccl_is_wanted_a_log_without_it_is_missed(
    journals: dict[str, list[dict[str, Any]]],
) -> None:
    (model,) = plan(topology="cluster").models
    changes = {"proof": Proof(), "nccl": "system"}
    looking = watch_of(**changes)
    ours, version = nccl.expected(model.recipe.model_copy(update=changes), model.knobs)
    journals["spark-1"] = [said("a", **{version: "NCCL version 2.28.9+cuda13.0"})]
    assert looking.look() == "" and looking.missing() == [ours]


def test_a_pattern_that_takes_too_long_ends_the_wait_with_its_name(journals: dict[str, list[dict[str, Any]]]) -> None:
    journals["spark-2"] = [said("b") | {"slow": ["serving"]}]
    assert watch().look() == "spark-2: the pattern `serving` of the recipe's proof takes too long: write it simpler"


def test_a_line_of_any_rank_counts(journals: dict[str, list[dict[str, Any]]]) -> None:
    journals["spark-1"] = [said("a", serving="it is serving")]
    journals["spark-2"] = [said("b", joined="rank 1 joined")]
    looking = watch()
    assert looking.look() == "" and looking.missing() == []


def test_what_an_earlier_start_has_said_does_not_count(journals: dict[str, list[dict[str, Any]]]) -> None:
    journals["spark-1"] = [said("a", serving="it is serving", joined="x"), said("a2", joined="rank 0 joined")]
    looking = watch()
    looking.look()
    looking.look()
    assert looking.missing() == ["serving"]


def test_a_forbidden_line_of_a_worker_is_told_with_node_line_and_meaning(
    journals: dict[str, list[dict[str, Any]]],
) -> None:
    journals["spark-2"] = [said("b", fallback="kernel fallback to slow")]
    assert watch().look() == 'spark-2: its log says "kernel fallback to slow": another kernel'
