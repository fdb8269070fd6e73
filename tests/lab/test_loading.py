"""Recipes with a long load: read by the same reader, and refused in words when it is no number."""

from __future__ import annotations

from pathlib import Path

import pytest

from operations.plan.recipes.formats import load_recipe
from tests.lab import images, loading
from tests.lab.shell import LabError


def test_it_is_the_shipped_recipe_with_a_longer_load(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(loading, "HOME", tmp_path)
    shipped = load_recipe(loading.recipe())
    monkeypatch.setenv("LAB_LOAD_S", "600")
    slow = load_recipe(loading.recipe())
    assert slow.env == {**shipped.env, "LAB_LOAD_S": "600"}
    assert slow.load_minutes == shipped.load_minutes + 10
    assert slow.flag_argv == shipped.flag_argv


def test_another_recipe_may_load_longer(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(loading, "HOME", tmp_path)
    shipped, slow = load_recipe("lab-tiny-gguf"), load_recipe(loading.longer("lab-tiny-gguf", 1200))
    assert slow.load_minutes == shipped.load_minutes + 20 and slow.env == shipped.env


def test_another_image_may_be_the_engine_s(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(loading, "HOME", tmp_path)
    tag = images.VLLM_DOUBLE.tag
    shipped, slow = load_recipe(loading.NAME), load_recipe(loading.longer(loading.NAME, 1200, image=tag))
    assert slow.image == tag != shipped.image and slow.flag_argv == shipped.flag_argv


def test_what_is_no_number_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LAB_LOAD_S", "ten minutes")
    with pytest.raises(LabError, match="LAB_LOAD_S is `ten minutes`: expected whole seconds"):
        loading.recipe()
