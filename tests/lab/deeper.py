"""A tiny model with a layer for each of three stages: the tiny one's layers, and its first one once more.

A file of its own: the revisions of the other models are hashes of the files that make them.
"""

from __future__ import annotations

import hashlib
import json
import shutil
from pathlib import Path
from typing import Any

import yaml

from operations.plan.recipes.formats import FOLDER
from tests.lab import further, model

REPO, LAYERS = "tandem-lab/tiny-tower", 3


def revision() -> str:
    """The sha1 of this file and of the tiny model's, so that another one has another."""
    return hashlib.sha1(Path(__file__).read_bytes() + model.own_hash().encode()).hexdigest()


def recipe(folder: Path) -> str:
    """The lab's recipe with this model, as a file."""
    data = yaml.safe_load((FOLDER / "lab-tiny-llama.yaml").read_text())
    data |= {"name": "lab-tiny-tower", "model": {"repo": REPO, "revision": revision()}}
    file = folder / "lab-tiny-tower.yaml"
    file.write_text(yaml.safe_dump(data, sort_keys=False))
    return str(file)


def ensure() -> None:
    """Make it if this revision is not there yet; needs the tiny model."""
    further.keep(REPO, revision(), lambda plain: write(model.folder() / "snapshots" / model.revision(), plain))


def write(tiny: Path, plain: Path) -> None:
    """Its files, from the tiny model's."""
    from safetensors.numpy import load_file, save_file

    for name in ("tokenizer.json", "tokenizer_config.json", "generation_config.json"):
        shutil.copy(tiny / name, plain / name)
    config: dict[str, Any] = json.loads((tiny / "config.json").read_text())
    (plain / "config.json").write_text(json.dumps(config | {"num_hidden_layers": LAYERS}, indent=1) + "\n")
    tensors = {name: each for shard in sorted(tiny.glob("*.safetensors")) for name, each in load_file(shard).items()}
    for layer in range(model.LAYERS, LAYERS):
        at = f"model.layers.{layer % model.LAYERS}."
        more = {name: each for name, each in tensors.items() if name.startswith(at)}
        tensors |= {f"model.layers.{layer}.{name.removeprefix(at)}": each for name, each in more.items()}
    save_file(tensors, plain / "model.safetensors", metadata={"format": "pt"})
