"""In what a unit is not the plan's, and what is done about it."""

from __future__ import annotations

from typing import Any

import pytest

from operations.paths import CANARY, ENGINE
from operations.plan.decide.actions import Action
from operations.plan.decide.unit_state import differences, is_stale
from operations.runner import carrying_out, units
from tests.deploy.fake import NAMES, look, planned

PLAN = planned(topology="solo")
STOP, START = f"systemctl stop {ENGINE}.service", f"systemctl start --no-block {ENGINE}.service"


def found(unit: str = ENGINE, without: str = "", **changes: str) -> Any:
    """A node as planned, but for words that systemd says of a unit."""
    state = look(PLAN, NAMES[0])
    state["services"]["units"][unit].update(changes)
    state["services"]["units"][unit].pop(without, None)
    return state


@pytest.mark.parametrize(
    ("changes", "words", "stops"),
    [
        ({}, [], False),
        ({"ActiveState": "failed"}, ["does not run"], False),
        ({"UnitFileState": "disabled"}, ["does not start at boot"], False),
        ({"spec": "0"}, ["other settings"], True),
        ({"image": "sha256:2"}, ["other image"], True),
        ({"image": "sha256:2", "UnitFileState": "disabled"}, ["other image", "does not start at boot"], True),
        # It waits for its start: its image is that of the next one.
        ({"without": "image"}, [], False),
        # Between two starts: judged by its files.
        ({"without": "spec"}, [], False),
    ],
)
def test_an_engine_differs_by_what_it_was_started_from(changes: dict[str, str], words: list[str], stops: bool) -> None:
    service, state = PLAN.of(NAMES[0]).container(ENGINE), found(**changes)
    assert differences(state, service) == words
    assert is_stale(state, service) == stops
    said = [str(command) for command in units.renew(state, service)]
    assert any(STOP in line for line in said) == stops
    assert any(START in line for line in said) == bool(words)


def test_between_two_starts_the_files_that_differ_are_named() -> None:
    service, state = PLAN.of(NAMES[0]).container(ENGINE), found(without="spec")
    changed = service.files[0]
    state["files"][changed.path]["sha256"] = "0"
    assert differences(state, service) == [f"other {changed.path.rpartition('/')[2]}"]


def test_what_is_wanted_anew_is_stopped_and_started_though_it_runs_as_planned() -> None:
    program = PLAN.of(NAMES[0]).services[CANARY]
    assert program
    said = [str(command) for command in units.renew(found(), program, anew=True)]
    assert f"systemctl stop {CANARY}.service" in said[0] and len(said) == 3


def test_each_action_is_carried_out_in_one_way() -> None:
    ways = set(carrying_out.carried_out.registry)
    assert set(Action.__subclasses__()) == ways - {object, Action}
