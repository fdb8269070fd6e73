"""Small models in HF cache layout, made with the lab's own model maker."""

from __future__ import annotations

import shutil
from pathlib import Path

from tests.lab import model

FOLDER = "models--" + model.REPO.replace("/", "--")


def make(hub: Path) -> Path:
    """The tiny model in a cache; returns its snapshot."""
    plain = hub / "plain"
    plain.mkdir(parents=True)
    for write in (model._write_config, model._write_tokenizer, model._write_weights):
        write(plain)
    model._as_cache(plain, hub / FOLDER)
    shutil.rmtree(plain)
    return hub / FOLDER / "snapshots" / model.revision()
