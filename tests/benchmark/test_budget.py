"""How long a run takes, and when it is known well enough."""

from __future__ import annotations

from pathlib import Path

import pytest

from bench.advise.how_long import told
from bench.budget import is_enough
from bench.folder import read as read_folder
from bench.request import read
from operations.plan.config.refusal import Refusal
from tests.benchmark_report.made_up import RECIPE, made_up_run

TWO = {"TOPOLOGIES": "solo cluster replicas"}


@pytest.mark.parametrize(("text", "seconds"), [("30m", 1800), ("90s", 90), ("2h", 7200), ("45min", 2700)])
def test_a_time(text: str, seconds: float) -> None:
    asked = read({"FOR": text})
    assert (asked.time_s, asked.profile.repeats) == (seconds, 30)
    assert read({"FOR": text, "REPEATS": "4"}).profile.repeats == 4


@pytest.mark.parametrize("text", ["30", "30 m", "0s", "29s", "25h", "soon", "-5m"])
def test_no_time(text: str) -> None:
    with pytest.raises(Refusal, match="is no time to measure for"):
        read({"FOR": text})


def test_llama_benchy_makes_its_own_repeats() -> None:
    with pytest.raises(Refusal, match="all repeats are one run of llama-benchy"):
        read({"FOR": "30m", "PROFILE": "articles"})


def test_a_run_without_a_time_goes_on_as_before() -> None:
    assert read({}).identity == read({}).identity != read({"FOR": "30m"}).identity


def test_how_long_is_said_beforehand() -> None:
    line = told(read(TWO), RECIPE)
    assert line.startswith("about ") and "60 min to load the model 3 times" in line and "measuring, 5 rounds" in line
    bounded = told(read(TWO | {"FOR": "30m"}), RECIPE)
    assert bounded.startswith("at most 30 min of measuring (a round takes about ") and "known to 3%" in bounded
    assert told(read(TWO), "lab-tiny-llama") == "how long it takes is not known before the first steps"


def test_enough_is_known_when_repeats_agree(tmp_path: Path) -> None:
    def enough(repeats: int) -> bool:
        _, steps, requests = read_folder(made_up_run(tmp_path / str(repeats), names=("solo",), repeats=repeats))
        return is_enough(steps, requests)

    assert not enough(1) and enough(4)
    assert not is_enough([], {})
