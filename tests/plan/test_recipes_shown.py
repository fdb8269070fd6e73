"""`tandem recipes`: what somebody who chooses one sees."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from operations.plan.recipes.formats import FOLDER
from operations.plan.recipes.picks import PICKS
from operations.plan.recipes.recipe import Figure, Recipe
from operations.verbs import recipe_table, recipes
from operations.verbs.recipe_remarks import grouped
from operations.verbs.recipe_view import FOOT, one, table
from tests.plan.samples import ROOT

SHIPPED = recipe_table.shipped()
FOREIGN = "model: org/{0}\ncontainer: image:{0}\ncommand: vllm serve org/{0}\nname: {0}\nrecipe_version: '1'\n"


def shown(capsys: pytest.CaptureFixture[str], *words: str, code: int = 0) -> str:
    assert recipes.main(*words) == code
    told = capsys.readouterr()
    return told.err if code else told.out


def test_four_picks_are_on_top_then_all_but_the_lab_s(capsys: pytest.CaptureFixture[str]) -> None:
    lines = shown(capsys).splitlines()
    assert [line.split("  ")[1] for line in lines[1:5]] == [pick.title for pick in PICKS]
    assert lines[5] == "For chat and a coding agent together: the pick for coding agents."
    names = [line.split()[0] for line in lines[8 : 8 + len(SHIPPED)]]
    assert names == [recipe.name for recipe in SHIPPED] and "lab-tiny-llama" not in names
    assert max(map(len, lines)) <= 132


@pytest.mark.parametrize("recipe", SHIPPED, ids=lambda recipe: recipe.name)
def test_a_row_says_all_that_a_choice_wants(recipe: Recipe) -> None:
    row = [next(iter(column.cells)) for column in table([recipe]).columns]
    assert len(row) == 9 and all(row) and "?" not in row and "not known" not in (*row[:6], *row[7:])
    assert row[6] == {None: "not known", False: "no"}[recipe.gated]


def test_the_table_has_the_figures_of_the_recipe() -> None:
    recipe = next(each for each in SHIPPED if each.name == "qwen3.6-35b-a3b-nvfp4-mtp")
    row = [next(iter(column.cells)) for column in table([recipe]).columns]
    assert row == [recipe.name, "replicas, solo", "50", "64", "131,072", "4", "no", "102", "240 for 4"]
    other = recipe.model_copy(
        update={"gated": True, "figures": (Figure(topology="solo", users=2, tokens_per_second=9, source="A"),)}
    )
    row = [next(iter(column.cells)) for column in table([other]).columns]
    assert row[6:] == ["yes", "-", "9 for 2"]


def test_one_user_s_figure_is_one_spark_s_and_else_says_of_how_many() -> None:
    said = {recipe.name: [next(iter(column.cells)) for column in table([recipe]).columns][7] for recipe in SHIPPED}
    assert (said["gpt-oss-120b-mxfp4"], said["gemma4-26b-a4b-fp8"]) == ("58", "39")
    assert (said["qwen3.8-flash-next-nvfp4"], said["nemotron-3-ultra-nvfp4"]) == ("39 on 2", "15 on 4")
    for recipe in (each for each in SHIPPED if " on " in str(said[each.name])):
        assert {each.topology for each in recipe.figures if each.users == 1} == {"cluster"}
    assert "`on N`: of a cluster of N alone." in FOOT["one user"]


def test_one_recipe_is_shown_with_all_that_is_known(capsys: pytest.CaptureFixture[str]) -> None:
    said = shown(capsys, "", "gpt-oss-120b-mxfp4")
    for part in (
        "the pick for coding agents",
        "65 GB of model, at most 27 GB of image",
        "131,072 tokens",
        "solo: 57.5 for one user [D]; cluster: 69 for one user [D]",
        "remark: a cluster's second start hangs in vLLM 0.27.1",
        "tandem init --model gpt-oss-120b-mxfp4",
    ):
        assert part in said


def test_a_gated_one_says_which_knob() -> None:
    recipe = SHIPPED[0].model_copy(update={"gated": True})
    assert any("hub_token_file" in line for line in one(recipe, []))
    assert not any("hub_token_file" in line for line in one(SHIPPED[0], []))


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("gpt-oss", "no recipe is named `gpt-oss`; did you mean `gpt-oss-120b-mxfp4`?"),
        ("gpt-oss-120b-mxfp5", "did you mean `gpt-oss-120b-mxfp4`?"),
        (
            "QWEN",
            "do you mean one of: qwen3.6-27b-nvfp4-mtp, qwen3.6-35b-a3b-nvfp4-mtp, qwen3.6-35b-a3b-nvfp4, ",
        ),
        ("zzz", "no recipe is named `zzz`; `tandem recipes` lists them"),
        ("../recipes/x", "no recipe is named `../recipes/x`; "),
    ],
)
def test_a_typo_gets_the_nearest(capsys: pytest.CaptureFixture[str], name: str, said: str) -> None:
    assert said in shown(capsys, "", name, code=2)


def test_one_of_another_folder(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "mine.yaml").write_text(FOREIGN.format("mine"))
    said = shown(capsys, str(tmp_path), "mine")
    assert "org/mine" in said and "it names no revision of org/mine" in said and "not known" in said
    assert "no recipe there is named `mino`; did you mean `mine`?" in shown(capsys, str(tmp_path), "mino", code=2)


def test_what_several_have_of_one_kind_is_one_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for name in ("a", "b", "c"):
        (tmp_path / f"{name}.yaml").write_text(FOREIGN.format(name))
    said = shown(capsys, str(tmp_path))
    assert said.count("names no revision") == 1
    assert (
        "3 recipes: remark: it names no revision of org/a, org/b, org/c; set the knob model_revision (a, b, c)" in said
    )


def test_of_many_some_are_named_and_what_stops_a_deploy_is_said_of_each() -> None:
    many = [(f"r{number}", f"remark: the image `i{number}` is {number} old") for number in range(9)]
    assert grouped(many) == ["9 recipes: remark: the image … is … old (r0, r1, r2, r3, r4, r5 and 3 more)"]
    one_place = [(f"r{number}", f"remark: `i{number}` is old") for number in range(9)]
    listed = "`i0`, `i1`, `i2`, `i3`, `i4`, `i5` and 3 more"
    assert grouped(one_place) == [f"9 recipes: remark: {listed} is old (r0, r1, r2, r3, r4, r5 and 3 more)"]
    errors = [("a", "error: `x` is wrong; y"), ("b", "error: `z` is wrong; y"), ("a", "remark: 1"), ("a", "remark: 2")]
    assert grouped(errors) == ["a: error: `x` is wrong; y", "b: error: `z` is wrong; y", "a: remark: 1", "a: remark: 2"]


def test_make_recipes_takes_one_by_its_name() -> None:
    ran = subprocess.run(
        [sys.executable, "-m", "operations.verbs.recipes", ""],
        env={**os.environ, "RECIPE": "gpt-oss-120b-mxfp4", "PYTHONPATH": str(ROOT)},
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=True,
    )
    assert ran.stdout.startswith("gpt-oss-120b-mxfp4: the pick for coding agents")


def test_how_a_recipe_is_chosen_is_true_of_each_kind(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Another's file may have the name of one of Tandem's; the lab's is chosen by nobody."""
    name = SHIPPED[0].name
    (tmp_path / "mine.yaml").write_text((FOLDER / f"{name}.yaml").read_text())
    assert f"tandem init --model {tmp_path}/mine.yaml\n" in shown(capsys, str(tmp_path), "mine")
    assert f"tandem init --model {name}\n" in shown(capsys, "", name)
    assert "tandem init" not in shown(capsys, "", "lab-tiny-llama")


def test_a_recipe_without_a_limit_of_its_own_has_none_and_what_nobody_has_looked_up_is_not_known() -> None:
    recipe = SHIPPED[0].model_copy(update={"gated": None, "flags": {}})
    row = [next(iter(column.cells)) for column in table([recipe]).columns]
    assert row[5] == "no limit" and row[6] == "not known"
    told = "\n".join(one(recipe, []))
    assert "as many requests as its release lets in" in told and "not known whether the Hub wants one" in told
