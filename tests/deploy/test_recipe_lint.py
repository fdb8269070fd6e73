"""An image that lies on the head is asked before anything is changed, whatever the recipe knows of its version."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from operations.plan.recipes.lint.subject import releases
from tests.deploy.fake import as_planned, deploy, flags

FOREIGN = """recipe_version: "1"
container: vllm-node
command: vllm serve org/model --port 8000 --gpu-memory-utilization 0.8 --mxfp4-backend CUTLASS
"""
RELEASE: Any = releases("vllm")["0.27.1"]
FORK = RELEASE | {"version": "0.1.dev3", "flags": RELEASE["flags"] | {"mxfp4-backend": {"takes": "text"}}}


def changes(tmp_path: Path) -> dict[str, str]:
    (tmp_path / "foreign.yaml").write_text(FOREIGN)
    return {"topology": "solo", "recipe": str(tmp_path / "foreign.yaml"), "model_revision": "d" * 40}


def test_an_image_without_a_known_version_is_asked_before_the_first_change(tmp_path: Path) -> None:
    wanted = changes(tmp_path)
    told = RELEASE | {"asked": "vllm-node"}
    outcome = deploy(tmp_path, as_planned(**wanted), "-y", *flags(**wanted), programs={"image.vocabulary": told})
    assert outcome.refused and outcome.commands == []
    assert "nothing was changed; this has to be put right first" in outcome.text
    assert "vLLM 0.27.1 (the image) has no flag `--mxfp4-backend`" in outcome.text


@pytest.mark.parametrize(
    ("told", "said"),
    [
        (FORK, ""),
        ({"error": "vllm-node can't be asked"}, "the recipe is judged by what is known of its version"),
        ({}, "no vLLM from 0.17.1 to 0.33.0 has a flag `--mxfp4-backend`"),
    ],
)
def test_the_words_of_a_fork_are_its_own(tmp_path: Path, told: dict[str, object], said: str) -> None:
    wanted = changes(tmp_path)
    outcome = deploy(tmp_path, as_planned(**wanted), "-y", *flags(**wanted), programs={"image.vocabulary": told})
    assert outcome.code == 0, outcome.text
    assert said in outcome.text and ("mxfp4-backend" in outcome.text) == bool(said)
