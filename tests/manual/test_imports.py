"""Imports go down: no arrow back, no circle, and the picture in the docs is of the code as it is."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from manual import ROOT, drawing, rooms
from manual.imports import PICTURE


def test_every_room_imports_from_below_alone() -> None:
    assert rooms.faults() == []


def test_the_picture_in_the_docs_is_of_the_code_as_it_is() -> None:
    assert PICTURE.read_text() == drawing.drawing(), "docs/assets/imports.svg is older than the code: make imports"
    assert f"](../assets/{PICTURE.name})" in (ROOT / "docs/decisions/imports-point-down.md").read_text()


@pytest.fixture
def house(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A repository of three files, as it is meant."""
    for room in ("plan", "steps"):
        (tmp_path / "operations" / room).mkdir(parents=True)
    (tmp_path / "operations/paths.py").write_text("")
    (tmp_path / "operations/plan/plan.py").write_text("from operations import paths")
    (tmp_path / "operations/steps/model.py").write_text("def made():\n    from operations.plan.plan import make_plan\n")
    monkeypatch.setattr(rooms, "ROOT", tmp_path)
    monkeypatch.setattr(rooms, "_TOPS", ("operations", "house"))
    _forget()
    yield tmp_path
    monkeypatch.undo()
    _forget()


def _forget() -> None:
    rooms.modules.cache_clear()
    rooms.imports.cache_clear()


def test_an_import_is_found_wherever_it_stands(house: Path) -> None:
    assert rooms.faults() == []
    assert rooms.arrows() == {
        ("operations.steps", "operations.plan"): ("operations.steps.model", "operations.plan.plan"),
        ("operations.plan", "operations.paths"): ("operations.plan.plan", "operations.paths"),
    }


@pytest.mark.parametrize(
    ("file", "text", "said"),
    [
        (
            "operations/plan/plan.py",
            "import operations.steps.model",
            "operations.plan.plan imports operations.steps.model: operations.plan is not above operations.steps",
        ),
        ("operations/paths.py", "from operations.plan import plan", "operations.paths imports operations.plan.plan"),
        ("operations/plan/other.py", "from operations.plan import another", "modules import each other: "),
        ("house/roof.py", "", "house.roof is in no room"),
    ],
)
def test_an_arrow_back_a_circle_and_a_module_without_a_room_are_named(
    house: Path, file: str, text: str, said: str
) -> None:
    (house / file).parent.mkdir(exist_ok=True)
    (house / file).write_text(text)
    (house / "operations/plan/another.py").write_text("from operations.plan.other import it")
    _forget()
    found = rooms.faults()
    assert [line for line in found if line.startswith(said)], found


def test_rooms_of_one_floor_do_not_import_each_other(house: Path) -> None:
    for name, other in (("door", "monitoring"), ("monitoring", "door")):
        (house / f"operations/node/{name}").mkdir(parents=True)
        (house / f"operations/node/{name}/{name}.py").write_text(f"from operations.node.{other} import {other}")
    _forget()
    assert sum("is not above" in line for line in rooms.faults()) == 2


def test_a_line_that_a_longer_way_says_is_left_out() -> None:
    pairs = [("a", "b"), ("b", "c"), ("a", "c"), ("a", "d")]
    assert sorted(drawing.straight(pairs)) == [("a", "b"), ("a", "d"), ("b", "c")]
