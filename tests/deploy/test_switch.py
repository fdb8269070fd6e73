"""What stands between an engine's stop and its start: one declared list, and nothing else."""

from __future__ import annotations

import ast
from typing import Any

import pytest

from operations.paths import ENGINE
from operations.plan.decide.actions import Action, Start, Stop
from tests.deploy.decided import Decided, decided
from tests.deploy.fake import FOUR, NAMES, look, planned
from tests.plan.samples import ROOT

#: The steps between, as deploy.py names them. Whatever is added here is a time in which nobody serves.
BETWEEN = ["firewall.apply"]


def calls(statement: ast.stmt) -> list[str]:
    """What a statement calls of a step's module, in order."""
    found = [each.func for each in ast.walk(statement) if isinstance(each, ast.Call)]
    return [ast.unparse(each) for each in found]


def test_between_the_stop_and_the_start_of_engines_comes_what_is_declared_and_nothing_else() -> None:
    body = ast.parse((ROOT / "deploy.py").read_text()).body
    stop, begin = (
        next(i for i, each in enumerate(body) if name in calls(each)) for name in ("engine.retire", "engine.start")
    )
    (between,) = body[stop + 1 : begin]
    assert isinstance(between, ast.For) and ast.unparse(between.iter) == "host.loop(BETWEEN)"
    assert [ast.unparse(each) for each in between.body] == ["stand(run, name=name)"]
    (declared,) = (each for each in body if isinstance(each, ast.Assign) and ast.unparse(each.targets[0]) == "BETWEEN")
    assert isinstance(declared.value, ast.List)
    assert [ast.unparse(each.elts[0]) for each in declared.value.elts if isinstance(each, ast.Tuple)] == BETWEEN


def replicas(**changes: Any) -> tuple[Any, list[Any]]:
    """A plan of replicas, and nodes of which each engine is of an older one."""
    names = FOUR if "nodes_per_replica" in changes else NAMES
    plan = planned(names=names, topology="replicas", **changes)
    states = [look(plan, name) for name in names]
    for state in states:
        state["services"]["units"][ENGINE]["spec"] = "older"
        state["files"]["/etc/tandem/engine/start.sh"]["sha256"] = "of another plan"
    return plan, states


def after_stop(outcome: Decided, node: str) -> Action:
    """What comes next on a node when its engine has stopped."""
    here = [action for at, action in outcome.actions if at == node]
    return here[here.index(Stop(ENGINE)) + 1]


@pytest.mark.parametrize("changes", [{}, {"nodes_per_replica": 2}], ids=["one by one", "pairs"])
def test_an_engine_that_is_renewed_starts_when_it_has_stopped(changes: dict[str, Any]) -> None:
    """Its files, and the wait for the proxy, come before."""
    plan, states = replicas(**changes)
    outcome = decided(plan, states)
    assert not outcome.refused
    for node in plan.nodes:
        assert after_stop(outcome, node.node.name.removeprefix("@fake/")) == Start(ENGINE)
