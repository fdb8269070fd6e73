"""Recipes against known holes without a node: a table over a folder, one recipe whole, and what the exit code says."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from operations.node.machine import runtimes
from operations.plan.recipes.formats import FOLDER, load_recipe
from operations.verbs import recipe_holes

MARLIN = FOLDER / "nemotron-3-super-nvfp4-marlin.yaml"


def test_every_shipped_recipe_has_a_row(capsys: pytest.CaptureFixture[str]) -> None:
    assert recipe_holes.main(str(FOLDER)) == 0
    said = capsys.readouterr().out
    for file in FOLDER.glob("*.yaml"):
        [row] = [line for line in said.splitlines() if line.startswith(f"{file.stem} ")]
        assert load_recipe(file.stem).engine in row
    assert "Ray (engine): nobody says its version" in said and "by the list of 2026-" in said


def test_a_folder_with_a_recipe_that_is_critical_fails_and_one_that_can_t_be_read_is_named(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    text = re.sub(r"repo: \S+", "repo: tandem/pictures-vl", MARLIN.read_text())
    (tmp_path / "seeing.yaml").write_text(text.replace("engine_version: 0.17.1", "engine_version: 0.14.0"))
    (tmp_path / "broken.yaml").write_text("name: x\n")
    assert recipe_holes.main(str(tmp_path)) == 1
    said = capsys.readouterr()
    assert "nobody has accepted them: CVE-2026-22778" in said.err and "broken.yaml: refused" in said.err


def test_what_one_topology_can_be_reached_by_counts() -> None:
    recipe = load_recipe(MARLIN.stem).model_copy(update={"env": {"VLLM_API_KEY": "k"}})
    assert recipe.topologies[-1] == "solo"
    assert [hole.advisory.id for hole in recipe_holes.over_all(recipe).critical] == ["CVE-2026-48746"]


def test_one_recipe_is_told_whole_and_no_recipe_in_a_line(capsys: pytest.CaptureFixture[str]) -> None:
    assert recipe_holes.main(MARLIN.stem) == 0
    said = capsys.readouterr().out
    assert "yes: a client with a key" in said and "no: the recipe sets no VLLM_API_KEY" in said
    assert recipe_holes.main("nemotronn") == 2
    assert "nemotronn" in capsys.readouterr().err


def test_a_node_tells_what_runs_its_containers(monkeypatch: pytest.MonkeyPatch) -> None:
    parts = [{"Name": "Engine", "Version": "28.3.3"}, {"Name": "runc", "Version": "1.2.5"}, {"Name": "docker-init"}]
    said = {"docker": json.dumps(parts), "nvidia-ctk": "NVIDIA Container Toolkit CLI version 1.17.8\ncommit: x\n"}
    monkeypatch.setattr(runtimes, "output", lambda program, *_: said.get(program, ""))
    assert runtimes.main() == {"docker": "28.3.3", "runc": "1.2.5", "nvidia-container-toolkit": "1.17.8"}
    said.clear()
    assert runtimes.main() == {}
