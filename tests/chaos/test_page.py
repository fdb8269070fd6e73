"""The page of the fault matrix is what the runs have kept, and nothing written by hand."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.chaos import markdown, results
from tests.chaos.fault import EVERY
from tests.chaos.row import Row
from tests.chaos.scene import Scene
from tests.lab.desk import Desk


def test_the_page_says_what_the_runs_have_kept() -> None:
    assert results.PAGE.read_text() == markdown.page(results.read())


def test_a_row_takes_the_place_of_its_own_earlier_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(results, "PATH", tmp_path / "faults.json")
    monkeypatch.setattr(results, "PAGE", tmp_path / "faults.md")
    results.keep(Row("solo", "reboot head", "", code="1"))
    results.keep(Row("replicas", "reboot head", "", took_s=120, code="1"))
    results.keep(Row("solo", "reboot head", "", problems=["2 wrong answers"], code="2"))
    # As the scenes and faults stand in their lists.
    assert [(row.scene, row.code) for row in results.read()] == [("replicas", "1"), ("solo", "2")]
    page = results.PAGE.read_text()
    assert "| reboot head |  | 0 | 0 |  |  | 2 wrong answers | 2 |" in page
    assert "2 rows, 1 as expected, 2 minutes for the 1 whose time was kept." in page


def test_each_row_stands_there_once() -> None:
    rows = results.read()
    assert len({(row.scene, row.fault) for row in rows}) == len(rows) == len(markdown.in_order(rows))


def test_a_scene_is_what_its_name_says() -> None:
    assert [Scene.named(name).name for name in EVERY] == list(EVERY)
    balanced, switch = Scene.named("replicas/balanced"), Scene.named("cluster/mp/switch")
    assert balanced.knobs["routing"] == "balanced" and balanced.desk == Desk()
    assert switch.knobs == {"topology": "cluster", "executor": "mp"}
    assert switch.desk == Desk(wiring="switch")


def test_that_figures_may_say_that_none_was_lost() -> None:
    rows = [row for row in results.read() if row.scene.startswith("replicas") and row.fault in markdown.away(row.scene)]
    counts = [re.match(r"(\d+) sent, (\d+) answered", row.requests) for row in rows]
    assert len(rows) > 60
    lost = [row.fault for row, each in zip(rows, counts, strict=True) if not each or each[1] != each[2] or row.problems]
    figures = results.PAGE.with_name("figures.md").read_text()
    says = "no request lost, none wrong: each sum is under its table" in figures
    assert says == (not lost), lost
    page = markdown.page(results.read())
    assert page.count("\nIn the ") == len({row.scene for row in rows})
