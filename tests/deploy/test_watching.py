"""Reading the logs of all ranks of a cluster on and on: nothing that was seen is lost, a restart begins anew."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import pytest

from operations.node.unit import journal
from operations.plan.cluster import nccl
from operations.plan.cluster.nodes import Node
from operations.plan.recipes.formats import load_recipe
from operations.plan.recipes.recipe import Forbidden, Proof
from operations.runner import watching
from tests.plan.samples import knobs, make_plan, nodes, plan

PROOF = Proof(expect=("joined", "serving"), forbid=(Forbidden(pattern="fallback", meaning="another kernel"),))


@pytest.fixture
def journals(monkeypatch: pytest.MonkeyPatch) -> dict[str, list[dict[str, Any]]]:
    """What each node's journal answers, one after the other; then nothing new."""
    answers: dict[str, list[dict[str, Any]]] = {"spark-1": [], "spark-2": []}

    def ask(host: Any, program: Callable[..., Any], **arguments: Any) -> dict[str, Any]:
        assert program is journal.main
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
    """The logs of a cluster without RDMA whose recipe has these changes."""
    return watch_over(nodes(2, knobs(topology="cluster"), rdma=False), **changes)


def watch_over(on: list[Node], *, executor: str = "mp", **changes: Any) -> watching.Watch:
    wanted = knobs(topology="cluster", executor=executor)
    (model,) = make_plan(load_recipe(wanted.recipe), wanted, on).models
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
    assert looking.look() == "" and looking.missing() == f"its log never said: {ours}"


def test_a_pattern_that_takes_too_long_ends_the_wait_with_its_name(journals: dict[str, list[dict[str, Any]]]) -> None:
    journals["spark-2"] = [said("b") | {"slow": ["serving"]}]
    assert watch().look() == "spark-2: the pattern `serving` of the recipe's proof takes too long: write it simpler"


def test_a_line_of_any_rank_counts(journals: dict[str, list[dict[str, Any]]]) -> None:
    journals["spark-1"] = [said("a", serving="it is serving")]
    journals["spark-2"] = [said("b", joined="rank 1 joined")]
    looking = watch()
    assert looking.look() == "" and looking.missing() == ""


def test_what_an_earlier_start_has_said_does_not_count(journals: dict[str, list[dict[str, Any]]]) -> None:
    journals["spark-1"] = [said("a", serving="it is serving", joined="x"), said("a2", joined="rank 0 joined")]
    looking = watch()
    looking.look()
    looking.look()
    assert looking.missing() == "its log never said: serving"


def test_a_forbidden_line_of_a_worker_is_told_with_node_line_and_meaning(
    journals: dict[str, list[dict[str, Any]]],
) -> None:
    journals["spark-2"] = [said("b", fallback="kernel fallback to slow")]
    assert watch().look() == 'spark-2: its log says "kernel fallback to slow": another kernel'


def by_rdma(**changes: Any) -> watching.Watch:
    """The logs of a cluster with RDMA, whose recipe has no proof of its own."""
    return watch_over(nodes(2, knobs(topology="cluster")), proof=Proof(), **changes)


def test_each_rank_has_to_say_that_it_speaks_by_rdma(journals: dict[str, list[dict[str, Any]]]) -> None:
    journals["spark-1"] = [said("a", **{nccl.BY_RDMA: "spark-1:9:9 [0] NCCL INFO Using network IB"})]
    journals["spark-2"] = [said("b"), said("b", **{nccl.BY_RDMA: "spark-2:9:9 [0] NCCL INFO Using network IB"})]
    looking = by_rdma()
    assert looking.look() == ""
    assert looking.missing().startswith("NCCL of spark-2 never said in the log of spark-2 that it speaks by RDMA: ")
    assert looking.look() == "" and looking.missing() == ""


@pytest.mark.parametrize("rank", ["spark-1", "spark-2"])
def test_a_rank_that_took_sockets_ends_the_start_with_what_helps(
    journals: dict[str, list[dict[str, Any]]], rank: str
) -> None:
    line = f"{rank}:301:301 [0] NCCL INFO Using network Socket"
    journals[rank] = [said("a", **{nccl.BY_SOCKETS.pattern: line})]
    problem = by_rdma().look()
    assert problem.startswith(f'{rank}: its log says "{line}": NCCL speaks TCP') and "`rdma link`" in problem


def test_a_node_that_lacks_devices_is_named_rather_than_one_that_went_by_sockets_with_it(
    journals: dict[str, list[dict[str, Any]]],
) -> None:
    lacks = "spark-2 (rocep1s0f0 is not there) can't use all RDMA devices: all send by sockets, and tokens are late"
    journals["spark-1"] = [said("a", **{nccl.LACKING.pattern: lacks, nccl.BY_SOCKETS.pattern: "Using network Socket"})]
    problem = by_rdma().look()
    assert problem.startswith(f'spark-1: its log says "{lacks}": every token is late by that. Where a device is not up')


def test_without_rdma_nothing_is_asked_of_nccl(journals: dict[str, list[dict[str, Any]]]) -> None:
    looking = watch_of(proof=Proof())
    assert nccl.BY_SOCKETS.pattern not in looking.forbidden and looking.look() == "" and looking.missing() == ""


def test_with_ray_the_head_s_log_is_read_for_all_ranks(journals: dict[str, list[dict[str, Any]]]) -> None:
    looking = by_rdma(executor="ray")
    asked = {log: [pattern for name, pattern in looking.of_each.values() if name == log] for log in journals}
    assert [len(each) for each in asked.values()] == [2, 0]
    journals["spark-1"] = [said("a", **{asked["spark-1"][0]: "x"})]
    assert looking.look() == ""
    assert looking.missing().startswith("NCCL of spark-2 never said in the log of spark-1 ")
