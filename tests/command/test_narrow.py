"""A terminal of 80 columns: no word is broken, no name is cut, no line is wider."""

from __future__ import annotations

import io
import re
from collections.abc import Callable
from contextlib import redirect_stdout

import pytest
from rich.console import Console

from bench.advise.tell import COLUMNS
from bench.advise.words import table
from operations.doctor.table import seen
from operations.plan.doctor.symptom import BAD, REMARK, Symptom
from operations.verbs import recipe_table, recipes
from operations.verbs.status_table import status_table
from operations.wire.unit import Status, StatusRow

ENGINE: StatusRow = {
    "unit": "tandem-engine",
    "state": "active (running)",
    "since": "Thu 2026-11-26 18:00:01 UTC",
    "recipe": "nemotron-3-super-nvfp4-auto cluster",
    "image": "vllm/vllm-openai:v0.31.0",
    "model": "nemotron",
    "health": "answers in 96 ms",
}
PROXY: StatusRow = {
    "unit": "tandem-proxy",
    "state": "active (running)",
    "image": "proxy:1",
    "health": "no: refused [::1]",
}


class Terminal(io.StringIO):
    """Standard output that says that it is one."""

    def isatty(self) -> bool:
        return True


@pytest.fixture(autouse=True)
def narrow(monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in (("COLUMNS", "80"), ("NO_COLOR", "1"), ("TERM", "xterm")):
        monkeypatch.setenv(name, value)


def said_by(told: Callable[[], object], out: io.StringIO | None = None) -> list[str]:
    """Lines that go to a terminal, or to `out`."""
    out = out or Terminal()
    with redirect_stdout(out):
        told()
    return [line.rstrip() for line in re.sub(r"\x1b\[[0-9;]*m", "", out.getvalue()).splitlines()]


def nodes() -> dict[str, Status]:
    def one(*rows: StatusRow) -> Status:
        return {"rows": list(rows), "old_images": [], "topology": "cluster", "away": {}, "alone": ""}

    return {"spark-1": one(ENGINE, PROXY), "spark-2": one(ENGINE | {"state": "failed (failed)", "why": "killed"})}


def test_status_says_below_what_its_table_has_no_room_for() -> None:
    away = ["spark-3 does not answer by ssh: " + "it is off, or its cable is out; " * 3]
    said = said_by(lambda: status_table(nodes(), away))
    assert max(map(len, said)) <= 80
    assert said[0].split() == ["node", "unit", "state", "since", "health"]
    assert said[1].split("  ")[-1].strip() == "answers in 96 ms" and "2026-11-26 18:00" in said[1]
    assert "no: refused [::1]" in said[2]
    assert "tandem-engine: nemotron-3-super-nvfp4-auto cluster, nemotron, vllm/vllm-openai:v0.31.0" in " ".join(said)
    assert "tandem-proxy on spark-1: proxy:1" in said and "spark-2 tandem-engine: killed" in said


def test_status_in_a_pipe_is_a_line_for_each_unit_with_all_of_it() -> None:
    said = said_by(lambda: status_table(nodes()), io.StringIO())
    assert said[0].split() == ["node", "unit", "state", "since", "recipe", "image", "model", "health"]
    assert all(str(cell) in said[1] for cell in ENGINE.values()) and "no: refused [::1]" in said[2]


def test_recipes_leave_columns_out_and_say_so() -> None:
    said = said_by(recipes.main)
    assert max(map(len, said)) <= 80
    names = {line.split("  ")[0] for line in said}
    assert {each.name for each in recipe_table.shipped()} <= names
    assert "A wider terminal shows more: runs in, at once, Hub login, one user." in said


def test_what_is_known_of_a_recipe_goes_on_below_its_own_text() -> None:
    said = said_by(lambda: recipes.main("", "gpt-oss-120b-mxfp4"))
    assert max(map(len, said)) <= 80
    at = next(number for number, line in enumerate(said) if line.startswith("  what for"))
    assert said[at + 1].startswith(" " * 15) and said[at + 1][15] != " "


def test_advice_has_its_last_column_below_where_there_is_no_room_beside(monkeypatch: pytest.MonkeyPatch) -> None:
    row = ("replicas, simple-shuffle", "2.5 s", "11.1", "30 s", "81", "all", "computed, off by 10%, at worst 77%")
    monkeypatch.setenv("COLUMNS", "80")
    below = list(table(COLUMNS, [row]))
    assert max(map(len, below)) <= 80 and below[1] == "  how sure" and below[3] == f"  {row[-1]}"
    monkeypatch.setenv("COLUMNS", "160")
    assert max(map(len, beside := list(table(COLUMNS, [row])))) <= 98 and beside[0].endswith("how sure")


def test_the_doctor_s_texts_stand_below_each_other() -> None:
    found = [
        Symptom(BAD, ("spark-1",), "seen " * 12, "means " * 12, "helps " * 12, "some-code"),
        Symptom(REMARK, ("a",), "b"),
    ]
    out = io.StringIO()
    console = Console(file=out, width=80)
    console.print(seen(found, 2, console.width))
    said = [line.rstrip() for line in out.getvalue().splitlines()]
    assert max(map(len, said)) <= 80 and said[0].startswith("bad     spark-1  seen seen")
    assert any("what helps: helps helps" in line for line in said) and len(said) < 12
    assert len(seen(found, 2, 160).columns) == 5
