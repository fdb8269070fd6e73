"""What the page is told: the last bench, and what is better than what serves for so many users, with its source."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from bench.advise import page
from bench.advise.choose import COMPUTED
from bench.advise.for_page import for_page
from operations.plan.history import record
from tests.benchmark_report import made_up
from tests.benchmark_report.made_up import RECIPE, made_up_run
from tests.deploy.fake import contents_of
from tests.plan.samples import plan
from tests.plan.two_models import two_models

RUN = "2026-11-24-101500-standard"
NOBODY = Path("/nonexistent")


@pytest.fixture(autouse=True)
def one_length(monkeypatch: pytest.MonkeyPatch) -> None:
    """Beside the bench's: each takes a third of a second."""
    monkeypatch.setattr(page, "PROMPTS", (1_000_000,))
    monkeypatch.setattr(page, "ANSWERS", (256,))


@pytest.fixture
def runs(tmp_path: Path) -> Path:
    made_up_run(tmp_path / RUN)
    return tmp_path


def told(runs: Path, **knobs: Any) -> Any:
    """Of the one model."""
    said = json.loads(page.told(page.of_plan(plan(**{"recipe": RECIPE, "topology": "cluster"} | knobs), 2), runs))
    assert said["format"] == page.FORMAT
    (model,) = said["models"]
    return model


def at(model: Any, users: int) -> Any:
    """The first lengths, which are the bench's."""
    return model["advice"][0]["users"][users - 1]


def test_what_is_better_is_told_for_each_number_of_users_with_its_source(runs: Path) -> None:
    said = told(runs, topology="solo")
    assert (said["advice"][0]["prompt"], said["advice"][0]["answer"], len(said["advice"][0]["users"])) == (
        1024,
        128,
        64,
    )
    few, many = at(said, 1), at(said, 10)
    assert (few["better"], many["better"]) == ("cluster, mp", "replicas, balanced")
    assert many["by"] == pytest.approx(many["there"] / many["here"] - 1) and 0.4 < many["by"] < 0.5
    assert many["first_there"] < many["first_here"]
    assert many["kind"] == f"between rows measured here, {RUN}"
    assert many["source"].startswith(f"solo: own run, {RUN}, between 8 and 16 users; replicas, balanced: own run, ")
    # Solo lets ten in: nobody has measured how long the others wait.
    assert at(said, 12)["kind"] == f"computed with a wait, error unknown, from {RUN}"


def test_what_serves_and_is_ahead_or_tied_has_nothing_better(runs: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    said = told(runs)
    assert at(said, 1)["better"] == "" and at(said, 1)["kind"] == f"measured here, {RUN}"
    assert at(said, 64)["better"] == "replicas, balanced"
    # 1% more of one repeat is no difference.
    noisy, equal = runs / "noisy", made_up.FORMULAS["solo"]
    monkeypatch.setitem(made_up.FORMULAS, "cluster/mp", replace(equal, step_s=equal.step_s / 1.02))
    made_up_run(noisy / RUN, names=("solo", "cluster/mp"), users=(1,), repeats=1)
    assert at(told(noisy, topology="solo"), 1)["better"] == ""


def test_differences_that_mean_nothing_are_no_advice() -> None:
    """Of an estimate below its own error."""
    said = told(NOBODY, recipe="gemma-4-31b-it-nvfp4", topology="cluster")
    found = [each for each in said["advice"][0]["users"] if each and each["kind"].startswith("computed")]
    assert found and all(not each["better"] or each["by"] >= COMPUTED for each in found)
    assert any(not each["better"] for each in found) and any(each["better"] for each in found)


def test_without_a_run_published_figures_are_told_as_such() -> None:
    said = told(NOBODY, recipe="nemotron-3-super-nvfp4-auto")
    assert said["bench"] is None and (said["advice"][0]["prompt"], said["advice"][0]["answer"]) == page.PLAIN
    assert at(said, 64)["better"] == "replicas, balanced"
    assert at(said, 1)["kind"] == "measured by others, [A]"


def test_the_last_bench_of_the_recipe_is_told_by_what_went_through_the_proxy(runs: Path) -> None:
    made_up_run(runs / "other", recipe="gpt-oss-120b-mxfp4", began=1_796_000_000.0)
    made_up_run(runs / "not-over", environment={}, began=1_796_000_000.0)
    made_up_run(runs / "older", began=1_794_000_000.0)
    (made_up_run(runs / "cut", began=1_796_000_000.0) / "requests.jsonl").write_text("")
    bench = told(runs)["bench"]
    assert (bench["folder"], bench["recipe"], bench["began"]) == (RUN, RECIPE, 1_795_000_000)
    assert (bench["prompt"], bench["answer"], len(bench["rows"])) == (1024, 128, 3 * 7)
    assert bench["rows"][0] == {
        "setup": "cluster, mp",
        "users": 1,
        "decode": pytest.approx(23.8, abs=0.5),
        "first": pytest.approx(0.46, abs=0.05),
    }


def test_each_table_says_where_its_lengths_are_from(runs: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert [each["lengths_from"] for each in told(runs)["advice"]] == ["bench"]
    assert [each["lengths_from"] for each in told(NOBODY)["advice"]] == ["plain"]
    # Of a bench whose lengths nothing can be computed for.
    monkeypatch.setattr(page, "PROMPTS", (1024,))
    last = page._last
    monkeypatch.setattr(page, "_last", lambda *of: {**(last(*of) or {}), "prompt": 2_000_000})
    said = told(runs)
    assert said["bench"]["prompt"] == 2_000_000
    assert [(each["prompt"], each["lengths_from"]) for each in said["advice"]] == [(1024, "grid")]


def test_lengths_that_the_context_does_not_hold_are_left_out_and_nothing_known_is_nothing_said() -> None:
    assert told(NOBODY, recipe="lab-tiny-llama")["advice"] == []
    assert [each["prompt"] for each in told(NOBODY, recipe="gemma-4-31b-it-nvfp4")["advice"]] == [1024]


def test_stages_are_not_set_against_figures_of_a_cluster_without_them(runs: Path) -> None:
    assert told(runs, pipeline_parallel=2)["advice"] == []


def test_a_way_of_the_same_topology_is_advised_where_both_were_measured(
    runs: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # Without one there is nothing that it could be behind.
    assert at(told(runs, executor="ray"), 1)["better"] == ""
    monkeypatch.setitem(made_up.FORMULAS, "cluster/ray", made_up.FORMULAS["cluster/mp"])
    made_up_run(runs / "ray", names=("cluster/ray",), slower=1.5, began=1_794_000_000.0)
    assert at(told(runs, executor="ray"), 1)["better"] == "cluster, mp"


def test_what_a_node_remembers_of_its_plan_tells_the_same(runs: Path) -> None:
    of = plan(recipe=RECIPE, topology="cluster")
    spec = of.head.container("tandem-engine").spec
    (found,) = page.of_record(record(of, contents_of(of)), spec, 2)
    (planned,) = page.of_plan(of, 2)
    assert found.recipe.name == planned.recipe.name and found.setup == planned.setup
    assert (found.spec, found.nodes, found.stages) == (planned.spec, planned.nodes, planned.stages)
    staged = plan(recipe=RECIPE, topology="cluster", pipeline_parallel=2)
    (found,) = page.of_record(record(staged, contents_of(staged)), spec, 2)
    assert found.setup == page.of_plan(staged, 2)[0].setup and "pipeline_parallel = 2" in found.setup.how
    with pytest.raises(ValueError, match="can't read"):
        page.of_record({"knobs": {}, "recipe": {}}, spec, 2)


def test_models_that_share_nodes_are_advised_nothing() -> None:
    chat, coder = page.of_plan(two_models(monitoring="metrics"), 2)
    assert (chat.nodes, coder.nodes) == (0, 0)
    said = json.loads(for_page(two_models(monitoring="metrics"), 2))
    assert [(each["model"], each["advice"]) for each in said["models"]] == [("nemotron", []), ("coder", [])]
