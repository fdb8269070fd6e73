"""What an image has told once, kept by its id: the same image says the same again."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path

from operations.wire import Json


def read(folder: Path, image_id: str) -> Json:
    """What it has told before; empty: it was not asked."""
    try:
        found: Json = json.loads(_file(folder, image_id).read_text())
    except (OSError, ValueError):
        return {}
    return found


def write(folder: Path, image_id: str, told: Mapping[str, object]) -> None:
    """Keep it: written aside, and renamed."""
    folder.mkdir(parents=True, exist_ok=True)
    aside = _file(folder, image_id).with_suffix(".new")
    aside.write_text(json.dumps(told))
    aside.replace(_file(folder, image_id))


def _file(folder: Path, image_id: str) -> Path:
    return folder / f"{image_id.rpartition(':')[2]}.json"
