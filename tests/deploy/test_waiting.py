"""Units that wait or are between two starts follow the plan."""

from __future__ import annotations

from typing import Any

import pytest

from operations.paths import ENGINE, PROXY
from operations.plan.decide.actions import LetCooldownsEnd, ServiceStops
from tests.deploy.decided import decided, start, stop
from tests.deploy.fake import as_planned, planned


def waits(state: dict[str, Any], unit: str) -> None:
    """The unit has begun a start from another plan, and waits in its ready.sh: it has no container."""
    units = state["services"]["units"]
    units[unit] = {"ActiveState": "activating", "SubState": "start-pre", "UnitFileState": "enabled", "spec": "older"}


@pytest.mark.parametrize("topology", ["solo", "cluster", "replicas"])
def test_an_engine_that_waits_follows_the_plan(topology: str) -> None:
    states = as_planned(topology=topology)
    waits(states[0], ENGINE)
    states[0]["files"]["/etc/tandem/engine/ready.sh"]["sha256"] = "of another port"
    outcome = decided(planned(topology=topology), states)
    # At once, in replicas as well: it serves nobody.
    assert outcome.position(1, "engine/ready.sh") < outcome.position(1, stop())
    assert outcome.of(LetCooldownsEnd) == [] and not outcome.refused
    # A replica elsewhere serves on.
    assert bool(outcome.of(ServiceStops)) == (topology != "replicas")


@pytest.mark.parametrize("topology", ["solo", "cluster", "replicas"])
def test_an_engine_between_two_starts_follows_the_plan(topology: str) -> None:
    states = as_planned(topology=topology)
    states[1]["services"]["units"][ENGINE] = between = {"ActiveState": "activating", "UnitFileState": "enabled"}
    if topology == "solo":
        states[0]["services"]["units"][ENGINE] = between
    # Each rank, or replica, has the files of another plan.
    for state in states:
        if "/etc/tandem/engine/start.sh" in state["files"]:
            state["files"]["/etc/tandem/engine/start.sh"]["sha256"] = "of another plan"
    outcome = decided(planned(topology=topology), states)
    node = 1 if topology == "solo" else 2
    assert outcome.position(node, "engine/start.sh") < outcome.position(node, stop())


def test_a_proxy_that_waits_follows_the_plan() -> None:
    states = as_planned(topology="solo")
    waits(states[0], PROXY)
    states[0]["files"]["/etc/tandem/proxy/ready.sh"]["sha256"] = "of another port"
    outcome = decided(planned(topology="solo"), states)
    order = [outcome.position(1, said) for said in ("proxy/ready.sh", stop(PROXY), start(PROXY))]
    assert order == sorted(order)


def test_what_waits_as_the_plan_wants_it_is_left_alone() -> None:
    states = as_planned(topology="replicas")
    engine = states[1]["services"]["units"][ENGINE]
    engine["ActiveState"] = "activating"
    del engine["image"], engine["topology"]
    outcome = decided(planned(topology="replicas"), states)
    assert outcome.commands == [] and not outcome.refused
