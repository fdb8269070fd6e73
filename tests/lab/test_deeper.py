"""The model of three layers: whole as any other, and with what three stages need."""

from __future__ import annotations

from pathlib import Path

import yaml

from operations.node import model_files
from tests.lab import deeper, model


def test_it_has_a_layer_for_each_of_three_stages(tmp_path: Path) -> None:
    tiny, tower = tmp_path / "tiny", tmp_path / "tower"
    for folder in (tiny, tower):
        folder.mkdir()
    model._write_config(tiny)
    model._write_tokenizer(tiny)
    model._write_weights(tiny)
    deeper.write(tiny, tower)
    assert not model_files.structure_problems(tower, "model")
    names = set(model_files_of(tower))
    assert {name.split(".")[2] for name in names if name.startswith("model.layers.")} == {"0", "1", "2"}
    assert len([name for name in names if name.startswith("model.layers.2.")]) == 9
    assert "lm_head.weight" in names


def model_files_of(folder: Path) -> list[str]:
    from safetensors import safe_open

    with safe_open(str(folder / "model.safetensors"), framework="np") as weights:
        return list(weights.keys())


def test_its_recipe_is_the_lab_s_with_this_model(tmp_path: Path) -> None:
    found = yaml.safe_load(Path(deeper.recipe(tmp_path)).read_text())
    assert found["model"] == {"repo": deeper.REPO, "revision": deeper.revision()} and len(deeper.revision()) == 40
    assert found["served_name"] == model.RECIPE.served_name
