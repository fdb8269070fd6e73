"""What `up` can be told, what it refuses, and what the other verbs know of it."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.lab import desk, settings
from tests.lab.desk import Desk
from tests.lab.shell import LabError

OTHER = next(arch for arch in desk.ARCHITECTURES.values() if arch != desk.OWN)
ROOT = Path(__file__).parents[2]


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
        ({"MACHINES": "xen"}, 2, "MACHINES is `xen`: expected namespaces or vm"),
        ({"MACHINES": "vm", "ARCH": "riscv64"}, 2, "ARCH is `riscv64`: expected amd64 or arm64"),
        (
            {"ARCH": OTHER},
            2,
            f"ARCH={OTHER} wants a kernel of its own, and this one is {desk.OWN}: expected MACHINES=vm, or no ARCH",
        ),
        (
            {"MACHINES": "vm", "OS": "debian12"},
            2,
            "OS=debian12 is not made for virtual machines: expected OS=debian13 with MACHINES=vm",
        ),
    ],
)
def test_what_can_t_be_is_refused_in_one_sentence(environment: dict[str, str], count: int, said: str) -> None:
    with pytest.raises(LabError) as refusal:
        desk.chosen(environment, count)
    assert str(refusal.value) == said


@pytest.mark.parametrize(
    ("environment", "machines", "said"),
    [
        ({"DISKS": "old"}, "vm", "DISKS is `old`: expected bare or kept"),
        ({"DISKS": "kept"}, "namespaces", "DISKS=kept is for virtual machines: expected MACHINES=vm, or no DISKS"),
    ],
)
def test_disks_are_kept_of_machines_alone(environment: dict[str, str], machines: str, said: str) -> None:
    assert desk.wants_kept_disks({"DISKS": "kept"}, Desk(machines="vm"))
    assert not desk.wants_kept_disks({}, Desk())
    with pytest.raises(LabError) as refusal:
        desk.wants_kept_disks(environment, Desk(machines=machines))
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


def test_a_machine_of_another_architecture_is_another_kind() -> None:
    told = desk.chosen({"MACHINES": "vm", "ARCH": OTHER}, 2)
    assert told == Desk("cable", "debian13", "networkd", OTHER, "vm")
    assert not told.has_nodes_of(desk.chosen({"MACHINES": "vm"}, 2))


def verb(*words: str, **environment: str) -> subprocess.CompletedProcess[str]:
    argv = [sys.executable, "-m", "tests.lab", *words]
    return subprocess.run(
        argv, cwd=ROOT, env={**os.environ, **environment}, capture_output=True, text=True, check=False
    )


def test_a_kind_of_nodes_that_is_not_known_is_one_line(tmp_path: Path) -> None:
    done = verb("status", MACHINES="xen", TANDEM_LAB_DIR=str(tmp_path))
    assert (done.returncode, done.stderr) == (1, "MACHINES is `xen`: expected namespaces or vm\n")


@pytest.mark.skipif(os.geteuid() != 0, reason="the lab's verbs want root")
def test_a_verb_for_one_kind_leaves_the_other_s_place_alone(tmp_path: Path) -> None:
    kept = tmp_path / "desk.json"
    kept.write_text('{"wiring": "cable", "system": "debian12", "renderer": "networkd"}')
    for word in ("status", "down"):
        done = verb(word, MACHINES="vm", TANDEM_LAB_DIR=str(tmp_path))
        said = (
            f"lab: {tmp_path} holds a lab with MACHINES=namespaces, not vm: set MACHINES, or another TANDEM_LAB_DIR\n"
        )
        assert (done.returncode, done.stderr) == (1, said)
    assert list(tmp_path.iterdir()) == [kept]


def test_the_two_kinds_of_lab_have_nothing_in_common() -> None:
    """`down` of one removes what begins with its prefix."""
    places = list(settings.PLACES.values())
    for field in settings.Place._fields:
        assert len({getattr(place, field) for place in places}) == len(places)
    for one, other in ((places[0], places[1]), (places[1], places[0])):
        assert not one.prefix.startswith(f"{other.prefix}-")
    # A name of an interface has at most 15 characters.
    assert all(len(f"{place.prefix}-mgmt") < 16 and len(f"{place.short}9-rail3") < 16 for place in places)
