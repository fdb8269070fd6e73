"""Which engines the proxies know while engines are renewed, and how a solo becomes replicas."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import pytest

from operations.paths import ENGINE, LITELLM
from operations.plan.decide.actions import ServiceStops
from operations.plan.plan import Plan
from operations.plan.services.litellm import Behind
from operations.plan.services.litellm_service import config_of, litellm_service
from tests.deploy.decided import Decided, decided, start, stop
from tests.deploy.fake import NAMES, as_planned, look, planned


def know(state: dict[str, Any], plan: Plan, engines: Iterable[str]) -> None:
    """Both LiteLLM of a node have these engines, at these URLs."""
    for unit in LITELLM:
        service = litellm_service(plan.knobs, [Behind(plan.models[0].recipe, tuple(engines))], unit)
        config = next(file for file in service.files if file.path == config_of(unit))
        state["files"][config.path]["sha256"] = state["proxy"]["engines"][unit] = config.sha256


SOLO_URL = "http://127.0.0.1:8001"


def solo_to_replicas(down: Iterable[str] = ()) -> Decided:
    """Of a solo that serves on the head. The proxies of both nodes know already what each of them can reach: the head's
    the solo where it is and where it will be, the other node's where it will be alone; both the other engine.
    """
    plan = planned(topology="replicas")
    states = [look(plan, name) for name in NAMES]
    states[0]["services"]["units"][ENGINE] |= {"spec": "older", "topology": "solo", "url": SOLO_URL}
    states[1]["services"]["units"][ENGINE] = {"UnitFileState": "enabled", "ActiveState": "failed"}
    later = tuple(plan.models[0].endpoints.values())
    for state, engines in zip(states, ((SOLO_URL, *later), later), strict=True):
        know(state, plan, engines)
    return decided(plan, states, tuple(down))


def test_a_solo_serves_until_another_node_does() -> None:
    outcome = solo_to_replicas()
    assert not outcome.refused
    assert outcome.position(2, start()) < outcome.position(1, stop()) < outcome.position(1, start())
    # These nodes stay as they are, so the last word is the first one.
    assert not [path for path in outcome.written() if "config.yaml" in path]
    # At no time nobody serves.
    assert ServiceStops() not in [action for _, action in outcome.actions]


def test_a_solo_serves_on_where_no_other_node_does() -> None:
    outcome = solo_to_replicas(down=NAMES[1:])
    assert outcome.refused and ("spark-1", stop()) not in outcome.commands


def test_a_solo_that_serves_nobody_waits_for_no_turn() -> None:
    outcome = solo_to_replicas(down=NAMES[:1])
    assert outcome.position(1, stop()) < outcome.position(2, start())


@pytest.mark.parametrize("turns", [2, 1], ids=["the head's first", "the head's is as planned"])
def test_the_proxy_follows_the_first_engine_that_serves_as_planned(turns: int) -> None:
    states = as_planned(topology="replicas")
    for state in states[-turns:]:
        state["services"]["units"][ENGINE]["spec"] = "older"
    states[0]["files"]["/etc/tandem/litellm-a/config.yaml"]["sha256"] = "of other addresses"
    states[0]["proxy"]["engines"][LITELLM[0]] = "of other addresses"
    outcome = decided(planned(topology="replicas"), states)
    order = [outcome.position(1, "a/config.yaml"), outcome.position(2, stop())]
    # It takes them up as it runs.
    assert not [said for _, said in outcome.commands if "litellm" in said and said.startswith(("Stop", "Start"))]
    outcome.position(1, "TakeUp(unit='tandem-litellm-a')")
    if turns == 2:
        # Before, the proxy would have known no engine at all.
        order.insert(0, outcome.position(1, start()))
    assert order == sorted(order) and not outcome.refused


def test_an_engine_that_waits_to_be_renewed_is_asked_where_it_was_until_then() -> None:
    states, plan, older = as_planned(topology="replicas"), planned(topology="replicas"), "http://192.168.177.12:7001"
    states[1]["services"]["units"][ENGINE] |= {"spec": "older", "url": older}
    for state in states:
        # Where it is, and where it will be.
        first, later = plan.models[0].endpoints.values()
        know(state, plan, (first, older, later))
    outcome = decided(plan, states)
    # These nodes stay as they are: the last word is the same. Nobody is told of the other address too soon.
    outcome.position(2, stop())
    assert not [path for path in outcome.written() if "config.yaml" in path]


@pytest.mark.parametrize(
    ("runs", "asked"),
    [
        ({"url": "http://192.168.177.12:7001", "model": "older"}, (0, 1)),
        ({"model": "older"}, (0,)),
    ],
    ids=["at another address", "at its own"],
)
def test_an_engine_of_an_older_name_is_not_asked_for_the_new_one(runs: dict[str, str], asked: tuple[int, ...]) -> None:
    states, plan = as_planned(topology="replicas"), planned(topology="replicas")
    states[1]["services"]["units"][ENGINE] |= {"spec": "older", **runs}
    urls = list(plan.models[0].endpoints.values())
    for state in states:
        know(state, plan, [urls[each] for each in asked])
    outcome = decided(plan, states)
    outcome.position(2, stop())
    assert not [path for path in outcome.written() if "config.yaml" in path]
