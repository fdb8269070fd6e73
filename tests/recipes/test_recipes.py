"""Recipes of our own making, one for each rule, and what each must become: a table lies beside them (`expected.yaml`).

A recipe loads, with remarks and errors, or is `refused` (a part of each finding). `serves`: where it may run.
`command`: the whole command of the head in the first of these topologies, with COMMIT for a revision. `errors`: all of
them, a part of each. `remarks`: parts of some. `…` in a part stands for anything. A file `git-root` stands for the
folder `.git`, which git can't hold.
"""

from __future__ import annotations

import re
import shutil
import time
from pathlib import Path
from typing import Any

import pytest
import yaml

from operations.plan.config.refusal import Refusal
from operations.plan.recipes.formats import load_file
from operations.plan.recipes.recipe import Recipe
from operations.verbs.recipes import at_most, judged
from tests.plan.samples import engine_of, knobs, make_plan, nodes

HERE = Path(__file__).parent
#: Seconds of computing for one recipe; a slow machine counts its own time slower.
SECONDS = 2.0
COMMIT = "0" * 40
TABLES = sorted(HERE.glob("*/expected.yaml"))
EXPECTED: dict[str, dict[str, Any]] = {
    f"{table.parent.name}/{name}": case for table in TABLES for name, case in yaml.safe_load(table.read_text()).items()
}


@pytest.fixture(scope="module")
def copied(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder where no repository is above it, nor anything fetched; what is read once has been read."""
    place = tmp_path_factory.mktemp("of-our-own") / "recipes"
    shutil.copytree(HERE, place)
    for mark in place.rglob("git-root"):
        mark.rename(mark.with_name(".git"))
    judged(load_file(place / "tools/model-filled-in.yaml"))
    return place


@pytest.mark.parametrize("name", EXPECTED)
def test_a_recipe_becomes_what_it_must(
    copied: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, name: str
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    began = time.process_time()
    with at_most(SECONDS):
        found = become(copied / f"{name}.yaml")
    assert time.process_time() - began < SECONDS
    expected = EXPECTED[name]
    assert "s3cr3t" not in str(found)
    remarks, errors = found.pop("remarks", []), found.pop("errors", [])
    for part in expected.get("remarks", []):
        assert any(says(remark, part) for remark in remarks), (part, remarks)
    assert len(errors) == len(expected.get("errors", [])), errors
    for part in expected.get("errors", []):
        assert any(says(error, part) for error in errors), (part, errors)
    assert all("\n" not in said for said in (*remarks, *errors, *found.get("refused", [])))
    if "refused" in expected:
        parts = expected["refused"]
        assert len(found["refused"]) == len(parts), found
        assert all(says(said, part) for part, said in zip(parts, found["refused"], strict=True)), found
    else:
        assert "refused" not in found, found
        wanted = {key: each for key, each in expected.items() if key not in ("remarks", "errors")}
        assert {key: found[key] for key in wanted} == wanted


def test_every_recipe_has_an_expectation_and_there_are_enough() -> None:
    files = {str(file.relative_to(HERE).with_suffix("")) for file in HERE.rglob("*.yaml")}
    others = {str(table.relative_to(HERE).with_suffix("")) for table in TABLES}
    assert files - others - {"mods/by-sparkrun/.sparkrun/registry"} == set(EXPECTED)
    assert len(EXPECTED) >= 60


def says(text: str, part: str) -> bool:
    """Whether a text has a part, in which `…` stands for anything."""
    return re.search(".*".join(map(re.escape, part.split("…"))), text) is not None


def become(file: Path) -> dict[str, Any]:
    """What a file becomes, in the words of the table."""
    try:
        recipe = load_file(file)
    except Refusal as refusal:
        return {"refused": [f"{each.problem}; {each.remedy}" for each in refusal.findings]}
    (recipe_format, _, _, _), said = judged(recipe)
    return {
        "format": recipe_format,
        "serves": ", ".join(recipe.topologies) + (f" from {recipe.min_nodes}" if recipe.min_nodes > 1 else ""),
        "command": command(recipe),
        "mods": [str(Path(mod).parent.name + "/" + Path(mod).name) for mod in recipe.mods],
        "starts": list(recipe.start_mods),
        "drops": recipe.drop_caches_s,
        "models": [f"{model.repo} ({model.kind})" for model in recipe.further_models],
        "files": {model.repo: list(model.files) for model in recipe.further_models},
        "beside": list(recipe.attached),
        "answers": recipe.answers,
        "errors": [line.removeprefix("error: ") for line in said if line.startswith("error: ")],
        "remarks": [line.removeprefix("remark: ") for line in said if line.startswith("remark: ")],
    }


def command(recipe: Recipe) -> str:
    """The head's command as start.sh has it."""
    model, *further = (each.model_copy(update={"revision": each.revision or COMMIT}) for each in recipe.models)
    recipe = recipe.model_copy(update={"model": model, "further_models": tuple(further)})
    wanted = knobs(topology=recipe.topologies[0], executor="mp")
    engine = engine_of(make_plan(recipe, wanted, nodes(max(2, recipe.min_nodes), wanted)).head)
    assert engine
    start = next(each.content for each in engine.files if each.path.endswith("start.sh"))
    return start.splitlines()[-1].replace(COMMIT, "COMMIT")
