"""The page of two models on two nodes: each is told by itself, and what is wrong with one is not said of the other."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.node.page_doubles import ANEW_S, LOOK_S
from tests.node.two_page import CHAT, CHAT_UP, CODER, CODER_UP, TwoModels, unit
from tests.plan.two_models import TWO


@pytest.fixture
def two(tmp_path: Path) -> Iterator[TwoModels]:
    made = TwoModels(tmp_path)
    yield made
    made.end()


def told(two: TwoModels, changes: dict[str, str | None], node: str = "spark-1") -> Any:
    """state.json once the exporter says this."""
    two.page.told("state.json")
    two.exporters[node].changes |= changes
    time.sleep(ANEW_S)
    return two.page.told("state.json")


def words(said: Any, what: str) -> list[tuple[str, str]]:
    return [(each["name"], each["state"]) for each in said[what]]


def test_each_model_has_its_own_sentence_and_figures(two: TwoModels) -> None:
    said = two.page.told("state.json")
    assert [(each["model"], each["topology"], each["executor"]) for each in said["plan"]["models"]] == [
        ("nemotron", "cluster", "mp"),
        ("coder", "solo", ""),
    ]
    assert [each["nodes"] for each in said["plan"]["models"]] == [["spark-1", "spark-2"], ["spark-1"]]
    assert [each["name"] for each in said["plan"]["nodes"]] == ["spark-1", "spark-2"]
    assert words(said, "models") == [("nemotron", "serves"), ("coder", "serves")]
    assert [each["requests_running"] for each in said["models"]] == [3, 1]
    first, second = said["nodes"]
    assert first["engines"] == [
        {"model": "nemotron", "state": "answers", "kv_fill": 25},
        {"model": "coder", "state": "answers", "kv_fill": 50},
    ]
    assert second["engines"] == [{"model": "nemotron", "state": "rank"}]
    assert words(said, "nodes") == [("spark-1", "ok"), ("spark-2", "ok")]
    assert "its engine of nemotron runs since" in first["sentence"] and "; its engine of coder " in first["sentence"]
    assert second["sentence"].startswith("a rank of the engine of nemotron runs here since ")


def test_one_that_has_given_up_is_its_node_s_word_and_not_the_other_s(two: TwoModels) -> None:
    said = told(two, {**unit(CODER, "coder", 0, "failed"), CODER_UP: "0"})
    assert words(said, "models") == [("nemotron", "serves"), ("coder", "no")]
    assert said["models"][1]["sentence"] == (
        "does not serve; spark-1: its engine has given up: `tandem status` says why"
    )
    assert words(said, "nodes") == [("spark-1", "problem"), ("spark-2", "ok")]
    # The worst is said first.
    assert said["nodes"][0]["sentence"].startswith("its engine of coder has given up: ")
    assert "; its engine of nemotron runs since" in said["nodes"][0]["sentence"]


def test_a_rank_waits_for_its_own_model_s_engine(two: TwoModels) -> None:
    said = told(two, {**unit(CHAT, "nemotron", time.time() - 130), CHAT_UP: "0"})
    assert words(said, "models") == [("nemotron", "starting"), ("coder", "serves")]
    assert "its engine starts, 2 of about " in said["models"][0]["sentence"]
    # Though `coder` answers.
    assert words(said, "nodes") == [("spark-1", "starting"), ("spark-2", "starting")]
    assert [each["state"] for each in said["nodes"][0]["engines"]] == ["starts", "answers"]


def test_one_that_hangs_is_told_from_one_that_starts_by_model(two: TwoModels) -> None:
    said = told(two, {CODER_UP: "0"})
    assert [each["state"] for each in said["nodes"][0]["engines"]] == ["answers", "silent"]
    assert said["models"][1]["sentence"].endswith(" and does not answer")
    # Both are started anew at once: that the other answers already says nothing of this one.
    now = time.time()
    said = told(two, {**unit(CHAT, "nemotron", now), **unit(CODER, "coder", now)})
    assert [each["state"] for each in said["nodes"][0]["engines"]] == ["answers", "starts"]


def test_what_the_canary_holds_against_one_is_not_said_of_the_other(two: TwoModels) -> None:
    problem = 'tandem_problem{of="engine-coder",why="no answer for 9 s"}'
    said = told(two, {CHAT_UP: "0", **unit(CHAT, "nemotron", time.time()), problem: "1"})
    assert said["nodes"][0]["sentence"].startswith("engine-coder: no answer for 9 s; its engine of nemotron starts")
    assert said["models"][0]["sentence"].startswith("its engine starts")
    said = told(two, {CHAT_UP: "1", CODER_UP: "0", **unit(CODER, "coder", time.time())})
    assert "spark-1: engine-coder: no answer for 9 s; its engine starts" in said["models"][1]["sentence"]
    assert said["nodes"][0]["sentence"].startswith("engine-coder: no answer for 9 s; its engine of coder starts")


def test_a_node_that_is_gone_is_missed_by_the_models_that_lie_there(two: TwoModels) -> None:
    two.page.told("state.json")
    two.exporters["spark-2"].end()
    time.sleep(ANEW_S)
    said = two.page.told("state.json")
    assert said["models"][0]["sentence"].endswith("; no word from spark-2")
    assert "spark-2" not in said["models"][1]["sentence"]
    assert said["nodes"][1]["engines"] == [{"model": "nemotron", "state": "unknown"}]


def test_a_course_tells_models_of_one_node_apart(two: TwoModels) -> None:
    time.sleep(LOOK_S)
    said = two.page.told("series.json?panel=kv_fill")
    assert {each["name"]: each["values"][-1] for each in said["series"]} == {
        "spark-1 nemotron": 25,
        "spark-1 coder": 50,
    }


def test_one_on_demand_rests_and_nothing_is_held_against_its_node(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(TWO, "coder", TWO["coder"] | {"on_demand": True})
    made = TwoModels(tmp_path)
    try:
        said = told(made, {**unit(CODER, "coder", 0, "inactive"), CODER_UP: "0"})
    finally:
        made.end()
    assert words(said, "models") == [("nemotron", "serves"), ("coder", "rests")]
    assert said["models"][1]["sentence"] == "is loaded when somebody asks for it"
    assert words(said, "nodes") == [("spark-1", "ok"), ("spark-2", "ok")]
    assert [each["state"] for each in said["nodes"][0]["engines"]] == ["answers", "rests"]
