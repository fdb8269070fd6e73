"""A recipe of a foreign format, as an owner gives it."""

from __future__ import annotations

from pathlib import Path

FOREIGN = """\
recipe_version: "1"
name: Something
model: org/model
container: vllm-node
command: vllm serve org/model --gpu-memory-utilization 0.8
"""


def foreign(tmp_path: Path, more: str = "") -> str:
    """The path of a file with it, and `more` at its end."""
    recipe = tmp_path / "foreign.yaml"
    recipe.write_text(FOREIGN + more)
    return str(recipe)
