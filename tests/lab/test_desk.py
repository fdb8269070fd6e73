"""What `up` can be told, what it refuses, and what the other verbs know of it."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.lab import desk
from tests.lab.desk import Desk
from tests.lab.shell import LabError


@pytest.mark.parametrize(("count", "wiring"), [(1, "switch"), (2, "cable"), (3, "switch"), (8, "switch")])
def test_two_nodes_are_joined_by_a_cable_and_others_by_a_switch(count: int, wiring: str) -> None:
    assert desk.chosen({}, count) == Desk(wiring, "debian12", "networkd")


def test_each_choice_is_its_own() -> None:
    assert desk.chosen({"WIRING": "ring"}, 3) == Desk("ring")
    assert desk.chosen({"OS": "debian13", "WIRING": ""}, 2) == Desk(system="debian13")
    both = desk.chosen({"RENDERER": "NetworkManager", "WIRING": "switch"}, 2)
    assert both == Desk("switch", renderer="NetworkManager")
    assert both.suite == "bookworm" and not both.has_containerd_store


@pytest.mark.parametrize(
    ("environment", "count", "said"),
    [
        ({"WIRING": "cable"}, 3, "WIRING=cable joins 2 nodes, and NODES is 3: expected NODES=2, or WIRING=switch"),
        ({"WIRING": "ring"}, 2, "WIRING=ring joins 3 nodes, and NODES is 2: expected NODES=3, or WIRING=switch"),
        ({"WIRING": "hub"}, 2, "WIRING is `hub`: expected cable, ring or switch"),
        ({"OS": "ubuntu"}, 2, "OS is `ubuntu`: expected debian12 or debian13"),
        ({"RENDERER": "ifupdown"}, 2, "RENDERER is `ifupdown`: expected networkd or NetworkManager"),
    ],
)
def test_what_can_t_be_is_refused_in_one_sentence(environment: dict[str, str], count: int, said: str) -> None:
    with pytest.raises(LabError) as refusal:
        desk.chosen(environment, count)
    assert str(refusal.value) == said


def test_every_verb_knows_what_up_was_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(desk, "KEPT", tmp_path / "desk.json")
    assert desk.remembered() == Desk()
    told = Desk("ring", "debian13", "NetworkManager")
    desk.remember(told)
    assert desk.remembered() == told


def test_another_wiring_keeps_the_nodes_and_another_kind_does_not() -> None:
    assert Desk("switch").has_nodes_of(Desk("cable"))
    assert not Desk(system="debian13").has_nodes_of(Desk())
    assert not Desk(renderer="NetworkManager").has_nodes_of(Desk())
